/** Addresses of pages: `#/queues/%2F/name?page=2`. A new page aborts the requests of the one before. */

import { decoded, encoded } from "./api/names.js";
import { h, show } from "./dom/element.js";
import { keepFresh } from "./dom/freshness.js";

/** The address of a page. */
export function link(...parts) {
  return "#/" + parts.map(encoded).join("/");
}

/** The context of a page: the names and the query in its address, the element to fill, the signal of its end. */
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
   * Call `load` now and at each refresh; errors are shown at the top. Returns a function that refreshes at once. Until the
   * first answer only the head of the page is shown, so that nothing moves under the pointer.
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

  /** Write the state of the page into its address. */
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

  /** End the current page and its requests. */
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
  page.show(h("h1", { tabindex: "-1" }, "Page not found"), h("p", {}, h("a", { href: "#/" }, "Overview")));
}
