/** Bars of a share that is used, up to a limit. */

import { h, svg } from "../dom/element.js";

/** A bar; `show(share, bad)` sets it, from 0 to 1. */
export function meter(title) {
  const bar = svg("rect", { height: 1 });
  const element = h(
    "div",
    { class: "meter", role: "meter", "aria-label": title, "aria-valuemin": "0", "aria-valuemax": "100" },
    svg("svg", { viewBox: "0 0 100 1", preserveAspectRatio: "none" }, bar),
  );
  return {
    element,
    show(share, bad = false) {
      const percent = 100 * Math.max(0, Math.min(1, share || 0));
      element.className = bad ? "meter bad" : "meter";
      element.setAttribute("aria-valuenow", String(Math.round(percent)));
      bar.setAttribute("width", String(percent));
    },
  };
}

/** A fact with a bar below its text. */
export function measured(title, share, text, bad = false) {
  const bar = meter(title);
  bar.show(share, bad);
  return h("div", { class: "measured" }, text, bar.element);
}
