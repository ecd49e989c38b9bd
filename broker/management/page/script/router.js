/** Addresses of pages: `#/queues/%2F/name?page=2`. A new page aborts the requests of the one before. */

import { decoded, encoded } from "./api/names.js";
import { h, show } from "./dom/element.js";
import { keepFresh } from "./dom/freshness.js";
import { named } from "./dom/visible.js";
import { failure, waysBack } from "./guidance/failures.js";
import { PageLine } from "./guidance/page_line.js";

/** The address of a page. */
export function link(...parts) {
  return "#/" + parts.map(encoded).join("/");
}

/** A link to a page with a name as its text. */
export function nameLink(name, ...parts) {
  return h("a", { href: link(...parts) }, ...named(name));
}

/** The context of a page: the names and the query in its address, the element to fill, the signal of its end. */
class Page {
  constructor({ names, query, parts }, main, signal) {
    this.names = names;
    this.query = query;
    this.parts = parts;
    this.line = new PageLine(parts[0] ?? "");
    this.main = main;
    this.signal = signal;
    this.stale = h("p", { class: "problem stale", role: "alert", hidden: true });
  }

  show(...children) {
    show(this.main, this.line.element, this.stale, ...children);
  }

  /**
   * Call `load` now and at each refresh; errors are shown at the top. Returns a function that refreshes at once. Until the
   * first answer only the head of the page is shown, so that nothing moves under the pointer.
   */
  fresh(load) {
    this.main.setAttribute("aria-busy", "true");
    const refresh = keepFresh(this.signal, load, (error) => {
      this.main.removeAttribute("aria-busy");
      this.stale.hidden = error === null;
      if (error) {
        this._failed(error);
      } else {
        this.line.refreshed(refresh);
      }
    });
    return refresh;
  }

  _failed(error) {
    if (error.status === 404 && !this.line.time.textContent) {
      this.fail(error);
      return;
    }
    show(this.stale, error.message, error.status === 404 && waysBack(this.parts));
    if (!this.stale.isConnected) {
      this.main.prepend(this.stale);
    }
  }

  /** Show an error in place of the page. */
  fail(error) {
    document.title = "Leveret";
    show(this.main, failure(error, this.parts));
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
    const page = new Page({ names, query, parts }, main, this.leave.signal);
    show(this.main, main);
    this.changed(parts[0] ?? "");
    scrollTo(0, 0);
    try {
      await view(page);
    } catch (error) {
      if (!page.signal.aborted) {
        page.fail(error);
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

function notFound() {
  throw Object.assign(new Error("There is no page at this address."), { status: 404 });
}
