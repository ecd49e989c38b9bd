/** The crash preview: messages that a power failure at this moment would lose; none of them is confirmed. */

import { get } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { bytes, counted, number } from "../../dom/format.js";
import { link } from "../../router.js";
import { facts, showFacts } from "../../widgets/facts.js";
import { card, cardWith, head } from "../../widgets/page_parts.js";
import { shortTable } from "../../widgets/tables.js";

const COLUMNS = [
  {
    title: "Connection",
    name: true,
    show: (row) => h("a", { href: link("connections", row.name) }, row.client || row.name),
  },
  { title: "User", show: (row) => row.user },
  { title: "Virtual host", show: (row) => row.vhost },
  { title: "Unconfirmed", number: true, show: (row) => number(row.unconfirmed) },
  { title: "Uncommitted", number: true, show: (row) => number(row.uncommitted) },
];

export function showCrash(page) {
  const top = head("Crash preview", { lead: "The messages that a power failure at this moment would lose." });
  const lost = h("span", { class: "number" }, "0");
  const open = h("span", { class: "number" }, "–");
  const more = facts([]);
  const publishers = shortTable(COLUMNS, (row) => row.name, {
    caption: "Publishers without a confirm",
    empty: "No publisher waits for a confirm.",
  });
  const rest = h("p", { class: "soft small", hidden: true });
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      h(
        "div",
        { class: "pair" },
        cardWith(
          "Confirmed and persistent",
          {
            remark:
              "Persistent messages in durable queues whose publishers have a confirm. They are on disk.",
          },
          h("div", { class: "verdict" }, lost, h("span", {}, "would be lost.")),
        ),
        cardWith(
          "Not confirmed yet",
          { remark: "Their publishers have no confirm yet, and have to publish them again after reconnecting." },
          h("div", { class: "verdict" }, open, h("span", {}, "may be lost.")),
        ),
      ),
      card("Other effects", more),
      card("Publishers without a confirm", publishers.element, rest),
    ),
  );

  page.fresh(async () => {
    const now = await get(["leveret", "unconfirmed"], {}, page.signal);
    open.textContent = number(now.unconfirmed);
    open.parentElement.classList.toggle("open", now.unconfirmed > 0);
    showFacts(more, [
      [
        "Transient messages",
        `${counted(now.transient, "message")}: not persistent, or in queues that are not durable. They are lost at any restart.`,
      ],
      ["In open transactions", `${counted(now.uncommitted, "message")} would be lost, as if never published.`],
      [
        "Unacknowledged",
        `${counted(now.unacknowledged, "message")} would be delivered again, marked as redelivered.`,
      ],
      [
        "Not yet written",
        `${bytes(now.unwritten_bytes)} in ${counted(now.batches, "batch", "batches")}. Messages that are acknowledged in them would be delivered again.`,
      ],
    ]);
    publishers.show(now.connections);
    rest.hidden = now.publishers <= now.connections.length;
    rest.textContent = `The ${number(now.connections.length)} of ${number(now.publishers)} with most messages are shown.`;
  });
}
