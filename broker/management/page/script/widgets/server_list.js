/** A list that the broker pages, sorts, filters and sums up. */

import { listPage } from "../api/lists.js";
import { h, show } from "../dom/element.js";
import { counted } from "../dom/format.js";
import { columnChoice } from "./lists/column_choice.js";
import { filterFields, pagerOf, rowsFound, sortFields } from "./lists/list_bar.js";
import { rememberSort, shownColumns, startState, written } from "./lists/list_state.js";
import { Table } from "./tables.js";

/**
 * `parts` is the path of the list; `columns` are those of `Table`; `keep` are further columns of the API for keys and links.
 * `noun` is the name of one thing, and of the list. `only` are pairs of a selection of the broker and its title.
 */
export function serverList(page, { noun, nouns = `${noun}s`, ...options }) {
  return new ServerList(page, { filter: "Filter by name", keep: [], only: [], ...options, noun, nouns });
}

class ServerList {
  constructor(page, options) {
    const { columns, noun, filter, only } = options;
    const sort = columns.find((column) => column.sort)?.sort ?? "";
    this.page = page;
    this.options = options;
    this.usual = { page: 1, size: 100, name: "", regex: false, only: "", sort, reverse: false };
    this.state = startState(noun, page.query, this.usual, columns);
    this.count = h("p", { class: "count", role: "status" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.none = h("p", { class: "empty", hidden: true });
    this.order = sortFields(
      columns,
      (column) => this._sortBy(column),
      () => this._sort(this.state.sort, !this.state.reverse),
    );
    this.pager = pagerOf(this.state, (values, turned) => this._change(values, turned));
    this.table = this._table();
    this.scroll = h("div", { class: "table-scroll" }, this.table.element);
    const optional = columns.filter((column) => column.title && !column.name).length > 1;
    const bar = h(
      "div",
      { class: "list-bar" },
      ...filterFields(this.state, filter, only, (values) => this._change(values)),
      this.order.element,
      optional && columnChoice(noun, columns, () => this._choose()),
      this.count,
      this.problem,
    );
    this.element = h("section", { class: "card flush" }, bar, this.scroll, this.none, this.pager.element);
    this.refresh = page.fresh(() => this._load());
  }

  _table() {
    const { columns, key, noun, nouns } = this.options;
    this.shown = shownColumns(noun, columns);
    return new Table(this.shown, key, { caption: nouns, sorted: (column) => this._sortBy(column) });
  }

  /** Show the columns that are chosen now, when their contents are here. */
  _choose() {
    this.table = this._table();
    this.refresh();
  }

  _change(values, turned = false) {
    Object.assign(this.state, { page: 1 }, values);
    this.page.remember(written(this.state, this.usual));
    this.refresh();
    if (turned) {
      this.element.scrollIntoView({ block: "start" });
    }
  }

  _sortBy(column) {
    const same = this.state.sort === column.sort;
    this._sort(column.sort, same ? !this.state.reverse : Boolean(column.number));
  }

  _sort(sort, reverse) {
    rememberSort(this.options.noun, { sort, reverse });
    this._change({ sort, reverse });
  }

  async _load() {
    const asked = JSON.stringify(this.state);
    const needs = this.shown.flatMap((column) => column.needs ?? (column.sort ? [column.sort] : []));
    const wanted = [...new Set([...this.options.keep, ...needs])];
    const sums = this.shown.filter((column) => column.sum).map((column) => column.sort);
    const shown = this.shown;
    try {
      const found = await listPage(this.options.parts, this.state, wanted, sums, this.page.signal);
      if (asked === JSON.stringify(this.state) && shown === this.shown) {
        this._display(found);
      }
    } catch (error) {
      await this._failed(error);
    }
  }

  async _failed(error) {
    if (error.error === "page_out_of_range" && this.state.page > 1) {
      this.state.page = 1;
      await this._load();
    } else if (error.status === 400) {
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    } else {
      throw error;
    }
  }

  _display(found) {
    const { noun, nouns, empty } = this.options;
    const any = found.items.length > 0;
    this.problem.hidden = true;
    show(this.scroll, this.table.element);
    this.table.mark(this.state.sort, this.state.reverse);
    this.order.update(this.state);
    this.table.show(found.items);
    this.table.total(found.totals && found.filtered > 1 ? `Total of ${counted(found.filtered, noun, nouns)}` : "", found.totals);
    this.scroll.hidden = !any;
    this.none.hidden = any;
    this.none.textContent = this.state.name || this.state.only ? `No ${noun} matches this filter.` : empty;
    this.count.textContent = rowsFound(found, noun, nouns);
    this.pager.update(found);
  }
}
