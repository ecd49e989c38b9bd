/** The memory and disk alarms, and the publishers that they block. */

import { get } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { bytes, number } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { badge, badges, facts, showFacts, showFigures, state } from "../../widgets/facts.js";
import { meter } from "../../widgets/meters.js";
import { card, cardWith, head } from "../../widgets/page_parts.js";
import { shortTable } from "../../widgets/tables.js";

const HELD_COLUMNS = [
  {
    title: "Connection",
    name: true,
    show: (row) => nameLink(row.client || row.name, "connections", row.name),
  },
  { title: "User", show: (row) => row.user },
  { title: "Virtual host", show: (row) => row.vhost },
  { title: "State", show: (row) => badges(state(row.blocked ? "blocked" : "running")) },
  { title: "Held back", number: true, show: (row) => bytes(row.held_bytes) },
];

export function showAlarms(page) {
  const top = head("Alarms", {
    lead: "While memory or disk are short, publishers are blocked. Consumers continue, because they free memory and disk.",
  });
  const figures = h("dl", { class: "figures" });
  const [memory, disk] = [gauge("Memory in use"), gauge("Free disk")];
  const held = shortTable(HELD_COLUMNS, (row) => row.name, {
    caption: "Blocked connections",
    empty: "No connection is blocked.",
  });
  const rest = h("p", { class: "soft small", hidden: true });
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      figures,
      h("div", { class: "pair" }, memory.element, disk.element),
      cardWith(
        "Blocked connections",
        { remark: "Connections that publish during an alarm, with the bytes that they have sent and the broker has not handled." },
        held.element,
        rest,
      ),
    ),
  );

  page.fresh(async () => {
    const alarms = await get(["leveret", "alarms"], {}, page.signal);
    const alarm = alarms.raised ? badge(`publishers are blocked: ${alarms.reason}`, "bad") : badge("no alarm", "good");
    top.about(alarms.disk.hangs ? badge(alarms.disk.hangs, "bad") : alarm);
    showFigures(figures, [
      ["Memory", alarms.memory.raised ? "alarm" : "fine", alarms.memory.raised],
      ["Disk", alarms.disk.raised ? "alarm" : "fine", alarms.disk.raised],
      ["Writes", alarms.disk.hangs ? "hangs" : "fine", alarms.disk.hangs !== ""],
      ["Blocked connections", number(alarms.held_connections), alarms.held_connections > 0],
      ["Bytes held back", bytes(alarms.held_bytes)],
    ]);
    memory.show(alarms.memory.used / alarms.memory.limit, alarms.memory.raised, [
      ["In use", bytes(alarms.memory.used)],
      ["Publishers are blocked above", bytes(alarms.memory.limit)],
    ]);
    disk.show(Math.min(1, alarms.disk.limit / Math.max(1, alarms.disk.free)), alarms.disk.raised, [
      ["Free for messages", bytes(alarms.disk.free)],
      ["Publishers are blocked below", bytes(alarms.disk.limit)],
    ]);
    held.show(alarms.held);
    rest.hidden = alarms.held_connections <= alarms.held.length;
    rest.textContent = `The ${number(alarms.held.length)} of ${number(alarms.held_connections)} with most bytes are shown.`;
  });
}

/** A bar of the distance to the alarm, with its numbers below. */
function gauge(title) {
  const bar = meter(`${title}, per cent of the way to the alarm`);
  const numbers = facts([]);
  return {
    element: card(title, h("div", { class: "sections" }, bar.element, numbers)),
    show(share, bad, pairs) {
      bar.show(share, bad);
      showFacts(numbers, pairs);
    },
  };
}
