/** The user that has logged in: name, tags, and the virtual hosts that it may enter. */

import { get } from "./requests.js";
import { forget, remember } from "./credentials.js";

const VHOST_KEY = "leveret.vhost";

class Session {
  constructor() {
    this.name = "";
    this.tags = new Set();
    this.product = "";
    this.version = "";
    this.testing = false;
    /** The sentence of a node that only follows a broker; empty at a broker. */
    this.standby = "";
    this.permissions = [];
    this.vhosts = [];
  }

  get administrates() {
    return this.tags.has("administrator");
  }

  /** True if the user may see the node, and the connections of all users. */
  get monitors() {
    return this.administrates || this.tags.has("monitoring");
  }

  /** True if the user may set policies where it has permissions. */
  get setsPolicies() {
    return this.administrates || this.tags.has("policymaker");
  }

  /** Virtual hosts in which the user has permissions, or the permission `right`: configure, write or read. */
  entered(right = "") {
    return this.permissions.filter((each) => !right || each[right] !== "").map((each) => each.vhost);
  }

  enters(vhost) {
    return this.permissions.some((each) => each.vhost === vhost);
  }

  /** The virtual host of lists; empty for all. */
  get vhost() {
    const chosen = sessionStorage.getItem(VHOST_KEY) ?? "";
    return this.vhosts.includes(chosen) ? chosen : "";
  }

  set vhost(name) {
    sessionStorage.setItem(VHOST_KEY, name);
  }

  /** Load the user, its virtual hosts, and the broker's version. Raises Problem. */
  async load() {
    const who = await get(["whoami"]);
    this.name = who.name;
    this.tags = new Set(who.tags);
    const [overview] = await Promise.all([get(["overview"], { disable_stats: true }), this.loadVhosts()]);
    this.product = `${overview.product_name ?? "Leveret"} ${overview.product_version ?? ""}`.trim();
    this.version = overview.rabbitmq_version ?? "";
    this.exchangeTypes = (overview.exchange_types ?? []).map((each) => each.name);
    this.node = overview.node ?? "";
    this.testing = overview.testing ?? false;
    this.standby = overview.standby ?? "";
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

/** True if lists have things of several virtual hosts. */
export function showsVhost() {
  return session.vhosts.length > 1 && !session.vhost;
}

/** Log in. Raises Problem if the broker refuses. */
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

/** The rights of the user on a queue or exchange: `{configure, write, read, publish}`; the last is on the default exchange. */
export async function allowed(vhost, name) {
  if (!session.enters(vhost)) {
    return { configure: false, write: false, read: false, publish: false };
  }
  return get(["leveret", "permissions", vhost, name]);
}
