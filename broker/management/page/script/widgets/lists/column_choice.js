/** The menu of a list in which its columns are chosen. */

import { h } from "../../dom/element.js";
import { button } from "../page_parts.js";
import { chooseColumn, forgetColumns, shownColumns } from "./list_state.js";

/** `changed` is called after each choice. */
export function columnChoice(list, columns, changed) {
  const offered = columns.filter((column) => column.title && !column.name);
  const items = h("div", { class: "choices" });
  const fill = () => {
    const shown = shownColumns(list, columns);
    items.replaceChildren(...offered.map((column) => tick(column, shown.includes(column))));
  };
  const tick = (column, checked) => {
    const box = h("input", { type: "checkbox", checked });
    box.addEventListener("change", () => {
      chooseColumn(list, column.title, box.checked);
      changed();
    });
    return h("label", { class: "tick" }, box, column.title);
  };
  const usual = () => {
    forgetColumns(list);
    fill();
    changed();
  };
  fill();
  const summary = h("summary", { class: "button" }, "Columns");
  const element = h("details", { class: "column-choice" }, summary, h("div", {}, items, button("Usual columns", usual)));
  closing(element, summary);
  return element;
}

/** Close a menu by Escape, and by a click beside it. */
function closing(element, summary) {
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      element.open = false;
      summary.focus();
    }
  });
  element.addEventListener("focusout", (event) => {
    const there = event.relatedTarget; // a click on a label focuses the page around it for a moment
    if (there && !element.contains(there) && !there.contains(element)) {
      element.open = false;
    }
  });
  element.addEventListener("toggle", () => {
    const elsewhere = (event) => element.contains(event.target) || (element.open = false);
    if (element.open) {
      const end = new AbortController();
      document.addEventListener("pointerdown", elsewhere, { signal: end.signal });
      element.addEventListener("toggle", () => end.abort(), { once: true });
    }
  });
}
