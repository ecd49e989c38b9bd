/** Addresses of pages: `#/queues/%2F/name?page=2`. Each page begins anew; what it was asking for before is given up. */

import { decoded, encoded } from "./api/names.js";
import { h, show } from "./dom/element.js";
import { keepFresh } from "./dom/freshness.js";

/** The address of a page. */
export function link(...parts) {
  return "#/" + parts.map(encoded).join("/");
}

/** What a page is given: the names in its address, the query behind it, where to show, and until when. */
class Page {
  constructor(names, query, main, signal) {
    this.names = names;
    this.query = query;
    this.main = main;
    this.signal = signal;
    this.stale = h("p", { class: "problem stale", role: "alert", hidden: true });
  }

  show(...children) {
    show(this.main, this.stale, ...children);
  }

  /**
   * Ask again and again; what goes wrong is said at the top. Gives what asks at once. Until the first answer there is only
   * the head of the page, so that nothing moves away under the pointer.
   */
  fresh(load) {
    this.main.setAttribute("aria-busy", "true");
    return keepFresh(this.signal, load, (error) => {
      this.main.removeAttribute("aria-busy");
      this.stale.hidden = error === null;
      this.stale.textContent = error?.message ?? "";
      if (error && !this.stale.isConnected) {
        this.main.prepend(this.stale);
      }
    });
  }

  /** Write into the address how the page stands, without leaving it. */
  remember(values) {
    const query = new URLSearchParams(values).toString();
    const path = location.hash.split("?")[0];
    history.replaceState(null, "", query ? `${path}?${query}` : path);
  }
}

export class Router {
  /** `routes` are pairs of a pattern such as "queues/:vhost/:name" and a function of a Page. */
  constructor(routes, main, changed) {
    this.routes = routes.map(([pattern, view]) => [pattern.split("/"), view]);
    this.main = main;
    this.changed = changed;
    this.leave = new AbortController();
  }

  start() {
    addEventListener("hashchange", () => this.open());
    this.open();
  }

  /** Ask for nothing any more. */
  stop() {
    this.leave.abort();
  }

  async open() {
    this.leave.abort();
    this.leave = new AbortController();
    document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
    const { parts, query } = here();
    const [view, names] = this._find(parts);
    const main = h("div");
    const page = new Page(names, query, main, this.leave.signal);
    show(this.main, main);
    this.changed(parts[0] ?? "");
    scrollTo(0, 0);
    try {
      await view(page);
    } catch (error) {
      if (!page.signal.aborted) {
        page.show(h("p", { class: "problem", role: "alert" }, error.message));
      }
    }
    if (!page.signal.aborted) {
      main.querySelector("h1")?.focus({ preventScroll: true });
    }
  }

  _find(parts) {
    for (const [pattern, view] of this.routes) {
      const names = match(pattern, parts);
      if (names) {
        return [view, names];
      }
    }
    return [notFound, {}];
  }
}

function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path ? path.split("/").map(decoded) : [], query: new URLSearchParams(query) };
}

function match(pattern, parts) {
  if (pattern.length !== Math.max(parts.length, 1)) {
    return null;
  }
  const names = {};
  for (const [place, each] of pattern.entries()) {
    if (each.startsWith(":")) {
      names[each.slice(1)] = parts[place];
    } else if (each !== (parts[place] ?? "")) {
      return null;
    }
  }
  return names;
}

function notFound(page) {
  page.show(h("h1", { tabindex: "-1" }, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Overview")));
}
