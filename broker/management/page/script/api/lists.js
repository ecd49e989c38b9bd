/** A page of a list, sorted and filtered by the broker. */

import { get } from "./requests.js";

/**
 * `state` is {page, size, name, regex, only, sort, reverse}, `columns` the names of the columns, `sums` of those that are
 * summed up. Returns {items, page, pages, filtered, total, totals}.
 */
export async function listPage(parts, state, columns, sums, signal) {
  const answer = await get(
    parts,
    {
      page: state.page,
      page_size: state.size,
      name: state.name,
      use_regex: state.regex,
      only: state.only,
      sort: state.sort,
      sort_reverse: state.reverse,
      pagination: true,
      columns: columns.join(","),
      totals: sums.join(","),
    },
    signal,
  );
  if (Array.isArray(answer)) {
    return whole(answer, state);
  }
  return {
    items: answer.items,
    page: answer.page,
    pages: answer.page_count,
    filtered: answer.filtered_count,
    total: answer.total_count,
    totals: answer.totals,
  };
}

/** Handle a short list, which the API returns as a whole. */
function whole(answer, state) {
  const pages = Math.ceil(answer.length / state.size);
  const page = Math.min(state.page, Math.max(1, pages));
  const items = answer.slice((page - 1) * state.size, page * state.size);
  return { items, page, pages, filtered: answer.length, total: answer.length };
}
