/** A list that the broker pages, sorts and filters. Its state is in the address of the page, so that it can be bookmarked. */

import { listPage } from "../api/lists.js";
import { h } from "../dom/element.js";
import { counted, number } from "../dom/format.js";
import { Table } from "./tables.js";

const SIZES = [50, 100, 500];
const TYPING_MILLISECONDS = 250;

/**
 * `parts` is the path of the list, or a function that returns it; `columns` are those of `Table`; `keep` are further columns
 * of the API for keys and links. `noun` is the name of one thing.
 */
export function serverList(
  page,
  {
    parts,
    columns,
    key,
    keep = [],
    noun,
    nouns = `${noun}s`,
    filter = "Filter by name",
    empty,
    sort = "",
    reverse = false,
  },
) {
  const start = { page: 1, size: 100, name: "", regex: false, sort, reverse };
  const state = { ...start, ...readState(page.query) };
  const wanted = [
    ...new Set([...keep, ...columns.flatMap((column) => column.needs ?? (column.sort ? [column.sort] : []))]),
  ];
  const table = new Table(columns, key, { caption: nouns, sorted: sortBy });
  const parts_ = typeof parts === "function" ? parts : () => parts;

  const input = h("input", {
    type: "search",
    value: state.name,
    placeholder: filter,
    "aria-label": filter,
    autocomplete: "off",
    spellcheck: "false",
  });
  const regex = h("input", { type: "checkbox", checked: state.regex });
  const count = h("p", { class: "count", role: "status" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const none = h("p", { class: "empty", hidden: true });
  const previous = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
  const place = h("span");
  const size = h(
    "select",
    { value: String(state.size), onchange: () => change({ size: Number(size.value) }) },
    ...SIZES.map((each) => h("option", { value: String(each) }, String(each))),
  );
  size.value = String(state.size);
  const pager = h(
    "div",
    { class: "pager" },
    h("label", {}, "Rows", size),
    h("div", { class: "actions" }, previous, place, next),
  );
  const element = h(
    "section",
    { class: "card flush" },
    h(
      "div",
      { class: "list-bar" },
      h("div", { class: "filter" }, input),
      h("label", { class: "tick" }, regex, "Regular expression"),
      count,
      problem,
    ),
    table.element,
    none,
    pager,
  );

  let typing = 0;
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ name: input.value }), TYPING_MILLISECONDS);
  });
  regex.addEventListener("change", () => change({ regex: regex.checked }));

  function change(values) {
    Object.assign(state, { page: 1 }, values);
    page.remember(Object.fromEntries(Object.entries(state).filter(([name, value]) => value !== start[name])));
    refresh();
  }

  function turn(by) {
    change({ page: state.page + by });
    table.element.scrollIntoView({ block: "nearest" });
  }

  function sortBy(column) {
    const same = state.sort === column.sort;
    change({ sort: column.sort, reverse: same ? !state.reverse : Boolean(column.number) });
  }

  async function load() {
    const asked = JSON.stringify(state);
    let found;
    try {
      found = await listPage(parts_(), state, wanted, page.signal);
    } catch (error) {
      if (error.error === "page_out_of_range" && state.page > 1) {
        state.page = 1;
        return load();
      }
      if (error.status !== 400) {
        throw error;
      }
      problem.textContent = error.message;
      problem.hidden = false;
      return undefined;
    }
    if (asked === JSON.stringify(state)) {
      display(found);
    }
    return undefined;
  }

  function display(found) {
    problem.hidden = true;
    table.mark(state.sort, state.reverse);
    table.show(found.items);
    table.element.hidden = found.items.length === 0;
    none.hidden = found.items.length > 0;
    none.textContent = state.name ? `No ${noun} matches this filter.` : empty;
    count.textContent =
      found.filtered === found.total
        ? counted(found.total, noun, nouns)
        : `${number(found.filtered)} of ${counted(found.total, noun, nouns)}`;
    pager.hidden = found.total <= SIZES[0];
    previous.disabled = state.page <= 1;
    next.disabled = state.page >= found.pages;
    place.textContent = `Page ${number(state.page)} of ${number(Math.max(1, found.pages))}`;
  }

  const refresh = page.fresh(load);
  return { element, refresh };
}

function readState(query) {
  const state = {};
  for (const name of ["name", "sort"]) {
    if (query.has(name)) {
      state[name] = query.get(name);
    }
  }
  for (const name of ["page", "size"]) {
    const value = Number(query.get(name));
    if (Number.isInteger(value) && value > 0) {
      state[name] = value;
    }
  }
  for (const name of ["regex", "reverse"]) {
    if (query.has(name)) {
      state[name] = query.get(name) === "true";
    }
  }
  return state;
}
