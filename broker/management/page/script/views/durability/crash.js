/** The crash preview: messages that a power failure at this moment would lose; none of them is confirmed. */

import { get } from "../../api/requests.js";
import { h, show } from "../../dom/element.js";
import { bytes, counted, number } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { facts, showFacts } from "../../widgets/facts.js";
import { card, head } from "../../widgets/page_parts.js";
import { shortTable } from "../../widgets/tables.js";

const COLUMNS = [
  {
    title: "Connection",
    name: true,
    show: (row) => nameLink(row.client || row.name, "connections", row.name),
  },
  { title: "User", show: (row) => row.user },
  { title: "Virtual host", show: (row) => row.vhost },
  { title: "Unconfirmed", number: true, show: (row) => number(row.unconfirmed) },
  { title: "Uncommitted", number: true, show: (row) => number(row.uncommitted) },
];

const KINDS = [
  ["lost", "Confirmed and persistent", "On disk: none is lost."],
  ["unconfirmed", "Not confirmed yet", "May be lost. Their publishers publish them again after reconnecting."],
  ["transient", "Transient", "Would be lost: not persistent, or in queues that are not durable."],
  ["uncommitted", "In open transactions", "Would be lost, as if never published."],
];

export function showCrash(page) {
  const top = head("Crash preview", { lead: "The messages that a power failure at this moment would lose." });
  const sum = h("p", { class: "verdict" });
  const kinds = KINDS.map(([name, title, remark]) => ({ name, ...kindOfLoss(title, remark) }));
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
      card("If the power failed now", sum, h("dl", { class: "losses" }, ...kinds.map((each) => each.element))),
      card("Delivered again", more),
      card("Publishers without a confirm", publishers.element, rest),
    ),
  );

  page.fresh(async () => {
    const now = await get(["leveret", "unconfirmed"], {}, page.signal);
    const counts = { ...now, lost: 0 };
    kinds.forEach((each) => each.show(counts[each.name]));
    showSum(sum, now.unconfirmed + now.transient + now.uncommitted);
    showFacts(more, redelivered(now));
    publishers.show(now.connections);
    rest.hidden = now.publishers <= now.connections.length;
    rest.textContent = `The ${number(now.connections.length)} of ${number(now.publishers)} with most messages are shown.`;
  });
}

function showSum(sum, count) {
  sum.className = count > 0 ? "verdict open" : "verdict";
  const words = count > 0 ? `${count === 1 ? "message" : "messages"} would be gone, none of them confirmed and persistent.` : "messages would be lost.";
  show(sum, h("span", { class: "number" }, number(count)), h("span", {}, words));
}

/** The count of one kind of messages; any that would be gone stand out. */
function kindOfLoss(title, remark) {
  const count = h("dd", { class: "number" }, "–");
  const element = h("div", {}, h("dt", {}, title), count, h("dd", { class: "soft small" }, remark));
  return {
    element,
    show(value) {
      count.textContent = number(value);
      element.className = value > 0 ? "open" : "";
    },
  };
}

function redelivered(now) {
  return [
    ["Unacknowledged", `${counted(now.unacknowledged, "message")}, marked as redelivered.`],
    [
      "Acknowledged",
      `Messages whose acknowledgement is not on disk: ${bytes(now.unwritten_bytes)} in ${counted(now.batches, "batch", "batches")} wait to be written.`,
    ],
  ];
}
