/** What a power failure at this moment would undo: nothing that was confirmed, and how much of everything else. */

import { get } from "../../api/client.js";
import { h } from "../../dom/element.js";
import { bytes, counted, number } from "../../dom/format.js";
import { link } from "../../router.js";
import { facts, showFacts } from "../../widgets/facts.js";
import { card, cardWith, head } from "../../widgets/frame.js";
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
  const top = head("At a crash", { lead: "If the power failed now, this is what would be gone." });
  const lost = h("span", { class: "number" }, "0");
  const open = h("span", { class: "number" }, "–");
  const more = facts([]);
  const publishers = shortTable(COLUMNS, (row) => row.name, {
    caption: "Publishers without an answer",
    empty: "No publisher waits for an answer.",
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
              "Messages in durable queues whose publisher has its confirm. They are on disk: that is what the confirm says.",
          },
          h("div", { class: "verdict" }, lost, h("span", {}, "would be lost.")),
        ),
        cardWith(
          "Not confirmed yet",
          { remark: "Their publishers have no answer, and send them again when they have connected again." },
          h("div", { class: "verdict" }, open, h("span", {}, "may be gone.")),
        ),
      ),
      card("What else would not be as it is", more),
      card("Publishers without an answer", publishers.element, rest),
    ),
  );

  page.fresh(async () => {
    const now = await get(["leveret", "unconfirmed"], {}, page.signal);
    open.textContent = number(now.unconfirmed);
    open.parentElement.classList.toggle("open", now.unconfirmed > 0);
    showFacts(more, [
      [
        "Transient messages",
        `${counted(now.transient, "message")}: not persistent, or in queues that are not durable. They end with the process, however it ends.`,
      ],
      ["In open transactions", `${counted(now.uncommitted, "message")} would be gone, as if never published.`],
      [
        "Out with consumers",
        `${counted(now.unacknowledged, "message")} would be delivered again, marked as redelivered.`,
      ],
      [
        "On the way to the disk",
        `${bytes(now.unwritten_bytes)} in ${counted(now.batches, "batch", "batches")}. What is acknowledged in them would be delivered again.`,
      ],
    ]);
    publishers.show(now.connections);
    rest.hidden = now.publishers <= now.connections.length;
    rest.textContent = `The ${number(now.connections.length)} of ${number(now.publishers)} that wait for most are shown.`;
  });
}
