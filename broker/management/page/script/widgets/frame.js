/** The parts that every page is made of: its head, tabs, sections. */

import { h, show } from "../dom/element.js";

/** The head of a page. `trail` are pairs of a text and an address that lead here. */
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
          { class: "trail", "aria-label": "Where this is" },
          ...trail
            .map(([text, address]) => [h("a", { href: address }, text), h("span", { "aria-hidden": "true" }, "/")])
            .flat(),
        ),
      h("h1", { tabindex: "-1" }, title),
      about,
      lead && h("p", { class: "lead" }, lead),
    ),
    h("div", { class: "actions" }, ...actions),
  );
  document.title = `${title} · Leveret`;
  return {
    element,
    /** Say what it is in a few labels. */
    about(...labels) {
      show(about, ...labels);
      about.hidden = !about.childNodes.length;
    },
    actions(...buttons) {
      show(element.lastChild, ...buttons);
    },
  };
}

/** Tabs are links: each is a page of its own. Triples of a text, an address, and whether it is this one. */
export function tabs(label, items) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label },
    ...items
      .filter(Boolean)
      .map(([text, address, here]) => h("a", { href: address, "aria-current": here ? "page" : undefined }, text)),
  );
}

/** A section with a title; `remark` stands below it. */
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
