/** The parts of pages: head, tabs, sections. */

import { h, show } from "../dom/element.js";
import { named } from "../dom/visible.js";

/** The head of a page. `trail` are the pages above it, as pairs of text and address. */
export function head(title, { trail = [], lead = "", actions = [] } = {}) {
  const about = h("div", { class: "about", hidden: true });
  const element = h(
    "header",
    { class: "head" },
    h(
      "div",
      {},
      trail.length > 0 &&
        h(
          "nav",
          { class: "trail", "aria-label": "Breadcrumb" },
          ...trail
            .map(([text, address]) => [h("a", { href: address }, ...named(text)), h("span", { "aria-hidden": "true" }, "/")])
            .flat(),
        ),
      h("h1", { tabindex: "-1" }, ...named(title)),
      about,
      lead && h("p", { class: "lead" }, lead),
    ),
    h("div", { class: "actions" }, ...actions),
  );
  document.title = `${title} · Leveret`;
  return {
    element,
    /** Show labels below the title. */
    about(...labels) {
      show(about, ...labels);
      about.hidden = !about.childNodes.length;
    },
    actions(...buttons) {
      show(element.lastChild, ...buttons);
    },
  };
}

/** Tabs are links to pages: triples of text, address, and true for the current one. */
export function tabs(label, items) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label },
    ...items
      .filter(Boolean)
      .map(([text, address, here]) => h("a", { href: address, "aria-current": here ? "page" : undefined }, text)),
  );
}

/** A section with a title. */
export function card(title, ...content) {
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, title)), ...content);
}

export function cardWith(title, { remark = "", actions = [] }, ...content) {
  return h(
    "section",
    { class: "card" },
    h(
      "header",
      {},
      h("h2", {}, title),
      actions.length > 0 && h("div", { class: "actions" }, ...actions),
      remark && h("p", {}, remark),
    ),
    ...content,
  );
}

export function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: kind, onclick }, text);
}
