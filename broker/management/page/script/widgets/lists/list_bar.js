/** The bar above a list: filter, selection, order on a telephone, columns, the number of rows; and the pager below it. */

import { h } from "../../dom/element.js";
import { counted, number } from "../../dom/format.js";

export const SIZES = [50, 100, 500];
const TYPING_MILLISECONDS = 250;

/** Fields that filter a list. `only` are pairs of the broker's selection and its title. */
export function filterFields(state, label, only, change) {
  const input = h("input", {
    type: "search",
    value: state.name,
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
  });
  const regex = h("input", { type: "checkbox", checked: state.regex });
  let typing = 0;
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ name: input.value }), TYPING_MILLISECONDS);
  });
  regex.addEventListener("change", () => change({ regex: regex.checked }));
  return [
    h("div", { class: "filter" }, input),
    h("label", { class: "tick" }, regex, "Regular expression"),
    only.length > 0 && selection("Show", only, state.only, (value) => change({ only: value })),
  ];
}

function selection(label, options, value, chosen) {
  const select = h(
    "select",
    { value, "aria-label": label, onchange: () => chosen(select.value) },
    ...options.map(([each, title]) => h("option", { value: each }, title)),
  );
  return select;
}

/** The order, for telephones, where the table has no head. `update` shows the current one. */
export function sortFields(columns, sorted, turned) {
  const options = columns.filter((column) => column.sort);
  const select = h(
    "select",
    { "aria-label": "Sort by", onchange: () => sorted(options.find((column) => column.sort === select.value)) },
    ...options.map((column) => h("option", { value: column.sort }, `Sort by ${column.title}`)),
  );
  const direction = h("button", { type: "button", onclick: turned });
  return {
    element: h("div", { class: "sort-choice" }, select, direction),
    update({ sort, reverse }) {
      select.value = sort;
      direction.textContent = reverse ? "↓" : "↑";
      direction.setAttribute("aria-label", reverse ? "Descending" : "Ascending");
    },
  };
}

/** The number of rows in words. */
export function rowsFound({ filtered, total }, noun, nouns) {
  const all = counted(total, noun, nouns);
  return filtered === total ? all : `${number(filtered)} of ${all}`;
}

/** Buttons that turn pages, and their size. */
export function pagerOf(state, change) {
  const turn = (by) => change({ page: state.page + by }, true);
  const previous = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
  const place = h("span");
  const size = h(
    "select",
    { value: String(state.size), onchange: () => change({ size: Number(size.value) }) },
    ...SIZES.map((each) => h("option", { value: String(each) }, String(each))),
  );
  const element = h(
    "div",
    { class: "pager" },
    h("label", {}, "Rows", size),
    h("div", { class: "actions" }, previous, place, next),
  );
  return {
    element,
    update(found) {
      element.hidden = found.total <= SIZES[0];
      previous.disabled = state.page <= 1;
      next.disabled = state.page >= found.pages;
      place.textContent = `Page ${number(state.page)} of ${number(Math.max(1, found.pages))}`;
    },
  };
}
