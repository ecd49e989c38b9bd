/** The sealed segments of the event log, with downloads. */

import { send } from "../../api/requests.js";
import { download } from "../../dom/download.js";
import { h } from "../../dom/element.js";
import { bytes, number } from "../../dom/format.js";
import { button, head } from "../../widgets/page_parts.js";
import { attempt } from "../../widgets/notices.js";
import { Table } from "../../widgets/tables.js";

const COLUMNS = [
  { title: "Segment", name: true, show: (row) => row.name },
  { title: "Node", show: (row) => row.node },
  { title: "Boot", number: true, show: (row) => number(row.boot) },
  { title: "First event", number: true, show: (row) => number(row.first) },
  { title: "Last event", number: true, show: (row) => number(row.last) },
  { title: "Size", number: true, show: (row) => bytes(row.bytes) },
  {
    title: "SHA-256",
    short: true,
    show: (row) => h("span", { class: "mono", title: row.sha256 }, `${row.sha256.slice(0, 12)}…`),
  },
  {
    title: "",
    show: (row) =>
      h(
        "div",
        { class: "actions" },
        button("Download", () => attempt(() => download(["events", row.name], row.name)), "plain"),
      ),
  },
];

export function showEventLog(page) {
  const top = head("Event log", {
    lead: "The history of all messages, if the event log is on. A sealed segment never changes.",
  });
  const table = new Table(COLUMNS, (row) => row.name, { caption: "Segments" });
  const none = h("p", { class: "empty", hidden: true });
  const first = button("From the beginning", () => turn([]));
  const next = button("Next", () => turn(following));
  const pager = h("div", { class: "pager", hidden: true }, h("span"), h("div", { class: "actions" }, first, next));
  let [after, following] = [page.query.getAll("after"), []];
  page.show(top.element, h("section", { class: "card flush" }, table.element, none, pager));

  function turn(names) {
    after = names;
    page.remember(names.map((name) => ["after", name]));
    refresh();
  }

  const refresh = page.fresh(async () => {
    const query = new URLSearchParams(after.map((name) => ["after", name]));
    const response = await send("GET", ["events"], { query, signal: page.signal });
    const segments = await response.json();
    following = afterOf(response.headers.get("link"));
    table.show(segments);
    table.element.hidden = segments.length === 0;
    none.hidden = segments.length > 0;
    none.textContent = after.length
      ? "No later segments."
      : "No sealed segments: the event log is off ([events] in the settings), or was started a short time ago.";
    pager.hidden = !after.length && !following.length;
    first.disabled = !after.length;
    next.disabled = !following.length;
  });
}

/** The last names before the next page, one for each node. */
function afterOf(header) {
  const [, target] = /^<([^>]*)>/.exec(header ?? "") ?? [];
  return target ? new URLSearchParams(target.split("?")[1]).getAll("after") : [];
}
