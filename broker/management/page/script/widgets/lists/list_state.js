/**
 * The state of a list. Page, filters and order are in the address, so that it can be bookmarked; the order and the chosen
 * columns are also remembered for the next visit.
 */

const SORT = "leveret.sort.";
const COLUMNS = "leveret.columns.";
const TEXTS = ["name", "sort", "only"];
const NUMBERS = ["page", "size"];
const FLAGS = ["regex", "reverse"];

/** The state at the start: that of the address, or the remembered order, or else `usual`. */
export function startState(list, query, usual, columns) {
  const kept = query.has("sort") ? {} : stored(SORT + list);
  const known = columns.some((column) => column.sort && column.sort === kept.sort);
  return { ...usual, ...(known ? { sort: kept.sort, reverse: kept.reverse === true } : {}), ...read(query) };
}

/** The part of a state that an address has to have. */
export function written(state, usual) {
  const values = Object.entries(state).filter(([name, value]) => value !== usual[name]);
  return Object.fromEntries(values);
}

export function rememberSort(list, { sort, reverse }) {
  localStorage.setItem(SORT + list, JSON.stringify({ sort, reverse }));
}

/** The columns that are shown: the chosen ones, in their order. Without a choice those that are not `off`. */
export function shownColumns(list, columns) {
  const chosen = stored(COLUMNS + list);
  return columns.filter((column) => column.name || !column.title || (chosen[column.title] ?? !column.off));
}

export function chooseColumn(list, title, shown) {
  localStorage.setItem(COLUMNS + list, JSON.stringify({ ...stored(COLUMNS + list), [title]: shown }));
}

export function forgetColumns(list) {
  localStorage.removeItem(COLUMNS + list);
}

function stored(key) {
  try {
    const value = JSON.parse(localStorage.getItem(key));
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {}; // another version has written it
  }
}

function read(query) {
  const text = TEXTS.filter((name) => query.has(name)).map((name) => [name, query.get(name)]);
  const numbers = NUMBERS.map((name) => [name, Number(query.get(name))]);
  const flags = FLAGS.filter((name) => query.has(name)).map((name) => [name, query.get(name) === "true"]);
  return Object.fromEntries([...text, ...flags, ...numbers.filter(([, value]) => Number.isInteger(value) && value > 0)]);
}
