/** The page of a queue or stream, with tabs for rates, messages, bindings and consumers. */

import { get, remove } from "../../api/requests.js";
import { allowed } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { bytes, compact, moment, number, rate } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { link, nameLink } from "../../router.js";
import { lineChart, rangeChoice } from "../../widgets/charts.js";
import { confirmed } from "../../widgets/dialogs.js";
import { argumentLines, badge, facts, showFacts, showFigures, stateOf } from "../../widgets/facts.js";
import { button, card, cardWith, head, tabs } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";
import { levels, ranges, rates, samplesOf } from "../../widgets/samples.js";
import { shortTable } from "../../widgets/tables.js";
import { each, QUEUED } from "../overview.js";
import { bindingForm, bindingTable } from "./bindings.js";
import { CONSUMER_COLUMNS } from "./consumers.js";
import { browseQueue, browseStream } from "./messages.js";
import { moveMessages } from "./move.js";
import { publishForm } from "./publish.js";
import { features } from "./queues.js";

const FLOWS = [
  { name: "publish", title: "Incoming" },
  { name: "deliver_get", title: "Delivered" },
  { name: "ack", title: "Acknowledged" },
  { name: "redeliver", title: "Redelivered" },
];

const OFFSET_COLUMNS = [
  { title: "Group", name: true, show: (row) => row.group },
  { title: "Committed offset", number: true, show: (row) => number(row.offset) },
  { title: "Lag", number: true, show: (row) => number(row.lag) },
  { title: "Committed at", show: (row) => moment(row.committed_at) },
];

const TABS = { "": flowTab, messages: messagesTab, bindings: bindingsTab, consumers: consumersTab };

export async function showQueue(page) {
  const { vhost, name, tab = "" } = page.names;
  const [may, first] = await Promise.all([allowed(vhost, name), get(["queues", vhost, name], {}, page.signal)]);
  const queue = { vhost, name, may, type: first.type ?? "classic", first };
  const top = head(name, { trail: [["Queues", link("queues")]], actions: actions(queue, () => refresh()) });
  const address = (each) => link("queues", vhost, name, ...(each ? [each] : []));
  const shown = (TABS[tab] ?? flowTab)(page, queue, () => refresh());
  page.show(
    top.element,
    tabs("Parts of this queue", [
      ["Overview", address(""), tab === ""],
      (may.read || may.publish) && ["Messages", address("messages"), tab === "messages"],
      ["Bindings", address("bindings"), tab === "bindings"],
      ["Consumers", address("consumers"), tab === "consumers"],
    ]),
    shown.element,
  );

  const refresh = page.fresh(async () => {
    const now = await get(["queues", vhost, name], shown.query(), page.signal);
    top.about(features(now), stateOf(now), badge(vhost));
    await shown.load(now);
  });
}

function actions({ vhost, name, may, type }, refresh) {
  const stream = type === "stream";
  return [
    may.read && may.publish && !stream && button("Move messages…", () => moveMessages(vhost, name, refresh)),
    may.read && !stream && button("Purge…", () => purge(vhost, name, refresh), "danger"),
    may.configure && button("Delete…", () => deleteQueue(vhost, name), "danger"),
  ].filter(Boolean);
}

function purge(vhost, name, refresh) {
  return confirmed({
    title: "Purge this queue?",
    text: `All ready messages of ${quoted(name)} are deleted. Unacknowledged messages stay.`,
    action: "Purge the queue",
    run: async () => {
      await remove(["queues", vhost, name, "contents"]);
      say("Queue purged.");
      refresh();
    },
  });
}

function deleteQueue(vhost, name) {
  return confirmed({
    title: "Delete this queue?",
    text: `The queue ${quoted(name)} is deleted with its messages, bindings and consumers.`,
    action: "Delete the queue",
    run: async () => {
      await remove(["queues", vhost, name]);
      location.hash = link("queues");
    },
  });
}

// Tabs: each returns its element, the query parameters that it needs, and a function that shows the queue.

function flowTab(page, queue, refresh) {
  const span = rangeChoice(ranges(false), "leveret.queue.range", refresh);
  const figures = h("dl", { class: "figures" });
  const queued = lineChart("Queued messages", QUEUED, number, compact);
  const flowing = lineChart("Message rates", FLOWS, rate, compact);
  const about = facts([]);
  const sizes = facts([]);
  const offsets = shortTable(OFFSET_COLUMNS, (row) => row.group, {
    caption: "Committed offsets",
    empty: "No group has committed an offset.",
  });
  const element = h(
    "div",
    { class: "sections" },
    figures,
    h(
      "div",
      { class: "pair" },
      cardWith("Queued messages", { actions: [span.element] }, queued.element),
      card("Message rates", flowing.element),
    ),
    h("div", { class: "pair" }, card("Queue", about), card("Contents", sizes)),
    queue.type === "stream" && card("Committed offsets", offsets.element),
  );
  const load = (now) => {
    showFigures(figures, [
      ["Ready", number(now.messages_ready ?? 0)],
      ["Unacked", number(now.messages_unacknowledged ?? 0)],
      ["Total", number(now.messages ?? 0)],
      ["Consumers", number(now.consumers ?? 0)],
      ["Incoming", rate(now.message_stats?.publish_details?.rate ?? 0)],
      ["Delivered", rate(now.message_stats?.deliver_get_details?.rate ?? 0)],
    ]);
    queued.update(each(QUEUED, (name) => levels(now[`${name}_details`])));
    flowing.update(each(FLOWS, (flow) => rates(now.message_stats?.[`${flow}_details`])));
    showFacts(about, queueFacts(now));
    showFacts(sizes, sizeFacts(now));
    offsets.show(now.committed_offsets ?? []);
  };
  return { element, query: () => samplesOf(span.range, "lengths", "msg_rates"), load };
}

function queueFacts(now) {
  return [
    ["Type", now.type],
    ["Survives a restart", now.durable ? "yes, durable" : "no, transient"],
    ["Policy", now.policy],
    ["Operator policy", now.operator_policy],
    ["Arguments", argumentLines(now.arguments)],
    ["Effective policy definition", argumentLines(now.effective_policy_definition)],
    [
      "Exclusive to",
      now.owner_pid_details?.name &&
        nameLink(now.owner_pid_details.name, "connections", now.owner_pid_details.name),
    ],
    ["Idle since", now.idle_since],
    [
      "Consumer capacity",
      Number.isFinite(now.consumer_capacity) && `${number(now.consumer_capacity * 100)} % of the time`,
    ],
  ];
}

function sizeFacts(now) {
  return [
    ["Bodies", bytes(now.message_bytes)],
    ["Ready", bytes(now.message_bytes_ready)],
    ["Unacknowledged", bytes(now.message_bytes_unacknowledged)],
    ["In memory", `${number(now.messages_ram)} messages, ${bytes(now.message_bytes_ram)}`],
    ["Persistent", `${number(now.messages_persistent)} messages, ${bytes(now.message_bytes_persistent)}`],
    ["Published in total", number(now.message_stats?.publish ?? 0)],
    ["Delivered in total", number(now.message_stats?.deliver_get ?? 0)],
    ["Acknowledged in total", number(now.message_stats?.ack ?? 0)],
  ];
}

function messagesTab(page, { vhost, name, may, type }, refresh) {
  const figures = h("dl", { class: "figures" });
  const browse = type === "stream" ? browseStream : browseQueue;
  const remark =
    type === "stream"
      ? "Reading does not remove messages from a stream."
      : "Peek changes nothing. With get, messages that are returned are marked as redelivered, and consumers may meanwhile get messages in another order.";
  const element = h(
    "div",
    { class: "sections" },
    figures,
    may.read && cardWith("Browse messages", { remark }, browse({ vhost, name, taken: refresh })),
    may.publish && card("Publish to this queue", publishForm({ vhost, key: name, published: refresh })),
  );
  const load = (now) =>
    showFigures(figures, [
      ["Ready", number(now.messages_ready ?? 0)],
      ["Unacked", number(now.messages_unacknowledged ?? 0)],
      ["Total", number(now.messages ?? 0)],
    ]);
  return { element, query: () => ({}), load };
}

function bindingsTab(page, { vhost, name, may }, refresh) {
  const table = bindingTable("source", () => may.write, refresh, "It is not bound to an exchange.");
  const element = h(
    "div",
    { class: "sections" },
    card("Bindings to this queue", table.element),
    may.write && card("Bind from an exchange", bindingForm({ vhost, name, as: "destination", changed: refresh })),
  );
  const load = async () => table.show(await get(["queues", vhost, name, "bindings"], {}, page.signal));
  return { element, query: () => ({}), load };
}

function consumersTab() {
  const columns = CONSUMER_COLUMNS.filter((column) => column.title !== "Queue");
  const table = shortTable(columns, (row) => `${row.channel_details?.name}\n${row.consumer_tag}`, {
    caption: "Consumers",
    empty: "No consumers.",
  });
  return {
    element: card("Consumers", table.element),
    query: () => ({}),
    load: (now) => table.show(now.consumer_details ?? []),
  };
}
