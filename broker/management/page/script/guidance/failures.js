/** A page that cannot be shown, or no longer: the reason, and the ways back. */

import { h } from "../dom/element.js";

const LISTS = {
  connections: "All connections",
  channels: "All channels",
  exchanges: "All exchanges",
  queues: "All queues",
  vhosts: "All virtual hosts",
  users: "All users",
};
const ABSENT = 404;

/** The contents of a page in place of one that failed. `parts` are those of its address. */
export function failure(error, parts) {
  const absent = error.status === ABSENT;
  const gone = absent && parts[0] in LISTS && parts.length > 1;
  return h(
    "div",
    { class: "sections" },
    h("h1", { tabindex: "-1" }, absent ? "Not found" : "Not available"),
    h("p", { class: "problem", role: "alert" }, gone ? absence(parts) : error.message),
    waysBack(parts),
  );
}

function absence([first, ...names]) {
  const name = ["queues", "exchanges"].includes(first) ? `${names[1]}” in the virtual host “${names[0]}` : names[0];
  return `There is no “${name}”: it has been deleted or closed, or was never there.`;
}

/** Links to the list that the page belongs to, and to the overview. */
export function waysBack([first, ...rest]) {
  return h(
    "p",
    { class: "actions" },
    first in LISTS && rest.length > 0 && h("a", { class: "button", href: `#/${first}` }, LISTS[first]),
    h("a", { class: "button", href: "#/" }, "Overview"),
  );
}
