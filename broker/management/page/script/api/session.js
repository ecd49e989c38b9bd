/** The user who has logged in: name, tags, and the virtual hosts that it may enter. */

import { get } from "./client.js";
import { forget, remember } from "./credentials.js";

const VHOST_KEY = "leveret.vhost";

class Session {
  constructor() {
    this.name = "";
    this.tags = new Set();
    this.product = "";
    this.testing = false;
    this.permissions = [];
    this.vhosts = [];
  }

  get administrates() {
    return this.tags.has("administrator");
  }

  /** Sees the node, and everybody's connections. */
  get monitors() {
    return this.administrates || this.tags.has("monitoring");
  }

  /** Sets policies and limits where it has permissions. */
  get setsPolicies() {
    return this.administrates || this.tags.has("policymaker");
  }

  /** Virtual hosts in which the user has permissions; with `right`, of this kind: configure, write or read. */
  entered(right = "") {
    return this.permissions.filter((each) => !right || each[right] !== "").map((each) => each.vhost);
  }

  enters(vhost) {
    return this.permissions.some((each) => each.vhost === vhost);
  }

  /** The virtual host that lists are of; empty for all. */
  get vhost() {
    const chosen = sessionStorage.getItem(VHOST_KEY) ?? "";
    return this.vhosts.includes(chosen) ? chosen : "";
  }

  set vhost(name) {
    sessionStorage.setItem(VHOST_KEY, name);
  }

  /** Learn who this is. Raises Problem. */
  async load() {
    const who = await get(["whoami"]);
    this.name = who.name;
    this.tags = new Set(who.tags);
    const [overview] = await Promise.all([get(["overview"], { disable_stats: true }), this.loadVhosts()]);
    this.product = `${overview.product_name ?? "Leveret"} ${overview.product_version ?? ""}`.trim();
    this.exchangeTypes = (overview.exchange_types ?? []).map((each) => each.name);
    this.node = overview.node ?? "";
    this.testing = overview.testing ?? false;
  }

  async loadVhosts() {
    const [vhosts, permissions] = await Promise.all([
      get(["vhosts"], { columns: "name" }),
      get(["leveret", "permissions"]),
    ]);
    this.vhosts = vhosts.map((each) => each.name);
    this.permissions = permissions;
    document.dispatchEvent(new Event("leveret:vhosts"));
  }
}

export const session = new Session();

/** Raises Problem when the broker refuses. */
export async function logIn(user, password) {
  remember(user, password);
  try {
    await session.load();
  } catch (problem) {
    forget();
    throw problem;
  }
}

export function logOut() {
  forget();
  location.hash = "";
  location.reload();
}

/** What the user may do with one queue or exchange: `{configure, write, read, publish}`; the last is to queues by their names. */
export async function allowed(vhost, name) {
  if (!session.enters(vhost)) {
    return { configure: false, write: false, read: false, publish: false };
  }
  return get(["leveret", "permissions", vhost, name]);
}
