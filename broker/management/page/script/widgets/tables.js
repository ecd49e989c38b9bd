/**
 * Tables that keep their rows when contents change, and so focus, selection and scroll position.
 *
 * A column is {title, show, number, name, short, sort, needs, off, sum}: `show` returns text or an element for a row; `sort`
 * is the broker's sort key; `needs` are the columns of the API that it uses; `off` ones are shown when they are chosen; `sum`
 * converts the total to text.
 */

import { h, show } from "../dom/element.js";
import { named } from "../dom/visible.js";

export class Table {
  /** `sorted(column)` is called when the head of a sortable column is clicked. */
  constructor(columns, key, { caption, sorted = null } = {}) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map(); // the row and its item by key
    this.heads = columns.map((column) => this._head(column, sorted));
    this.body = h("tbody");
    this.foot = h("tfoot");
    this.element = h(
      "table",
      { class: "table" },
      h("caption", { class: "out-of-sight" }, caption),
      h("thead", {}, h("tr", {}, ...this.heads)),
      this.body,
      this.foot,
    );
  }

  _head(column, sorted) {
    const title = column.title || h("span", { class: "out-of-sight" }, "Actions");
    const content =
      column.sort && sorted ? h("button", { type: "button", onclick: () => sorted(column) }, title) : title;
    return h("th", { scope: "col", class: column.number ? "number" : "" }, content);
  }

  /** Mark the column by which the rows are sorted. */
  mark(sort, reverse) {
    this.columns.forEach((column, place) => {
      if (column.sort && column.sort === sort) {
        this.heads[place].setAttribute("aria-sort", reverse ? "descending" : "ascending");
      } else {
        this.heads[place].removeAttribute("aria-sort");
      }
    });
  }

  /** Show the totals of columns, by their sort keys, below the rows; none without a title. */
  total(title, totals) {
    const cells = this.columns.map((column) => {
      const sum = column.sum && totals?.[column.sort] !== undefined ? column.sum(totals[column.sort]) : "";
      return filled(cell(column), column.name ? title : sum);
    });
    show(this.foot, title && cells.some((each) => each.textContent !== title && each.textContent) && h("tr", {}, ...cells));
  }

  show(items) {
    const rows = new Map();
    items.forEach((item, place) => {
      const key = this.key(item);
      const { row, shown } = this.rows.get(key) ?? { row: this._row(), shown: {} };
      become(shown, item);
      this._fill(row, shown);
      rows.set(key, { row, shown });
      if (this.body.children[place] !== row) {
        this.body.insertBefore(row, this.body.children[place] ?? null);
      }
    });
    while (this.body.children.length > items.length) {
      this.body.lastChild.remove();
    }
    this.rows = rows;
  }

  _row() {
    return h("tr", {}, ...this.columns.map(cell));
  }

  _fill(row, item) {
    this.columns.forEach((column, place) => filled(row.children[place], column.show(item)));
  }
}

/** Copy the contents of an object into another, so that buttons kept in a row act on the current item. */
function become(shown, item) {
  Object.keys(shown).forEach((name) => delete shown[name]);
  Object.assign(shown, item);
}

/** Show contents in a cell; of a text nothing is hidden. */
function filled(element, contents) {
  show(element, ...(typeof contents === "string" ? named(contents) : [contents].flat()));
  return element;
}

function cell(column) {
  const kind = [column.number && "number", column.name && "name", column.short && "short"].filter(Boolean).join(" ");
  return h("td", { class: kind, "data-label": column.title || undefined });
}

/** A table of a complete list, with a text for an empty one. */
export function shortTable(columns, key, { caption, empty }) {
  const table = new Table(columns, key, { caption });
  const none = h("p", { class: "empty" }, "…");
  const element = h("div", {}, h("div", { class: "inset", hidden: true }, table.element), none);
  return {
    element,
    show(items) {
      table.show(items);
      table.element.parentElement.hidden = items.length === 0;
      none.hidden = items.length > 0;
      none.textContent = empty;
    },
  };
}
