/** The findings of the rehearsal: what a later series of RabbitMQ would do differently for the clients so far. */

import { get } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { number } from "../../dom/format.js";
import { head } from "../../widgets/page_parts.js";
import { Table } from "../../widgets/tables.js";

const COLUMNS = [
  { title: "Object", name: true, show: (row) => `${row.kind} ${row.name}` },
  { title: "Virtual host", show: (row) => row.vhost },
  { title: "Connection", show: (row) => row.connection },
  { title: "Times", number: true, show: (row) => number(row.count) },
  { title: "Rule", show: (row) => lines(row.rule, `${row.level} since ${row.since}`) },
  { title: "Difference and remedy", show: (row) => lines(difference(row), `Remedy: ${row.remedy}`) },
];

function difference(row) {
  return row.detail ? `${row.text} (${row.detail})` : row.text;
}

function lines(first, second) {
  return h("div", {}, h("div", {}, first), h("div", { class: "soft small" }, second));
}

export function showRehearsal(page) {
  const top = head("Rehearsal", {
    lead: "Differences of a later RabbitMQ for the clients since the start, if the rehearsal is on.",
  });
  const table = new Table(COLUMNS, (row) => [row.rule, row.vhost, row.kind, row.name, row.connection].join("\n"), {
    caption: "Findings",
  });
  const none = h("p", { class: "empty", hidden: true });
  page.show(top.element, h("section", { class: "card flush" }, table.element, none));

  page.fresh(async () => {
    const noted = await get(["rehearsal"], {}, page.signal);
    table.show(noted.findings);
    table.element.hidden = noted.findings.length === 0;
    none.hidden = noted.findings.length > 0;
    none.textContent = noted.watch
      ? `Nothing differs with ${noted.watch} so far.`
      : "The rehearsal is off ([rehearsal] watch in the settings).";
  });
}
