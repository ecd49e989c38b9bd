/** The overview: totals, rates, and the state of the node. */

import { get } from "../api/requests.js";
import { session } from "../api/session.js";
import { h } from "../dom/element.js";
import { byteRate, bytes, compact, duration, number, rate } from "../dom/format.js";
import { nameLink } from "../router.js";
import { lineChart, rangeChoice } from "../widgets/charts.js";
import { badge, badges, facts, showFacts, showFigures } from "../widgets/facts.js";
import { measured } from "../widgets/meters.js";
import { card, cardWith, head } from "../widgets/page_parts.js";
import { shortTable } from "../widgets/tables.js";
import { levels, ranges, rates, samplesOf } from "../widgets/samples.js";

export const QUEUED = [
  { name: "messages_ready", title: "Ready" },
  { name: "messages_unacknowledged", title: "Unacknowledged" },
  { name: "messages", title: "Total" },
];

const MESSAGE_RATES = [
  { name: "publish", title: "Published" },
  { name: "deliver_get", title: "Delivered" },
  { name: "ack", title: "Acknowledged" },
  { name: "confirm", title: "Confirmed" },
  { name: "redeliver", title: "Redelivered" },
  { name: "return_unroutable", title: "Returned" },
  { name: "drop_unroutable", title: "Dropped as unroutable" },
];

const CHURN = [
  { name: "connection_created", title: "Connections opened" },
  { name: "connection_closed", title: "Connections closed" },
  { name: "channel_created", title: "Channels opened" },
  { name: "channel_closed", title: "Channels closed" },
  { name: "queue_declared", title: "Queues declared" },
  { name: "queue_deleted", title: "Queues deleted" },
];

export function showOverview(page) {
  const top = head("Overview", { lead: `To its clients this broker is a RabbitMQ ${session.version} (setting identity.personality).` });
  const span = rangeChoice(ranges(true), "leveret.overview.range", () => refresh());
  const figures = h("dl", { class: "figures" });
  const queued = lineChart("Queued messages", QUEUED, number, compact);
  const flowing = lineChart("Message rates", MESSAGE_RATES, rate, compact);
  const churn = lineChart("Connections, channels and queues per second", CHURN, rate, compact);
  const node = facts([]);
  const listeners = shortTable(LISTENER_COLUMNS, (row) => `${row.protocol} ${row.ip_address} ${row.port}`, {
    caption: "Listeners",
    empty: "None.",
  });
  const nodeCards =
    session.monitors && h("div", { class: "pair" }, card("Node", node), card("Listeners", listeners.element));
  top.actions(span.element);
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      figures,
      h("div", { class: "pair" }, card("Queued messages", queued.element), card("Message rates", flowing.element)),
      nodeCards,
      cardWith(
        "Churn",
        { remark: "Opening and closing costs more than keeping connections and channels open." },
        churn.element,
      ),
    ),
  );

  async function load() {
    const query = samplesOf(span.range, "lengths", "msg_rates", "node_stats");
    const overview = await get(["overview"], query, page.signal);
    const { object_totals: totals, queue_totals: messages, message_stats: stats, churn_rates: churned } = overview;
    showFigures(figures, [
      ["Queued", compactNumber(messages?.messages ?? 0)],
      ["Published", rate(stats?.publish_details?.rate ?? 0)],
      ["Delivered", rate(stats?.deliver_get_details?.rate ?? 0)],
      ["Connections", totalLink("connections", totals)],
      ["Channels", totalLink("channels", totals)],
      ["Consumers", number(totals?.consumers ?? 0)],
      ["Queues", totalLink("queues", totals)],
      ["Exchanges", totalLink("exchanges", totals)],
    ]);
    queued.update(each(QUEUED, (name) => levels(messages?.[`${name}_details`])));
    flowing.update(each(MESSAGE_RATES, (name) => rates(stats?.[`${name}_details`])));
    churn.update(each(CHURN, (name) => rates(churned?.[`${name}_details`])));
    if (session.monitors) {
      await loadNode(overview);
    }
  }

  async function loadNode(overview) {
    listeners.show((overview.listeners ?? []).filter((row) => row.protocol !== "clustering"));
    const [it] = await get(["nodes"], {}, page.signal);
    showFacts(node, nodeFacts(it, overview));
  }

  const refresh = page.fresh(load);
}

/** The points of each series by its name. */
export function each(series, points) {
  return Object.fromEntries(series.map(({ name }) => [name, points(name)]));
}

function compactNumber(value) {
  return h("span", { title: number(value) }, compact(value));
}

function totalLink(name, totals) {
  return nameLink(number(totals?.[name] ?? 0), name);
}

const LISTENER_COLUMNS = [
  { title: "Protocol", name: true, show: (row) => row.protocol },
  { title: "Address", show: (row) => row.ip_address },
  { title: "Port", number: true, show: (row) => String(row.port) },
];

function memoryBar({ mem_used: used, mem_limit: limit, mem_alarm: alarm }) {
  return measured("Memory", used / limit, `${bytes(used)} of ${bytes(limit)} before publishers are blocked`, alarm);
}

function diskBar({ disk_free: free, disk_free_limit: limit, disk_free_alarm: alarm }) {
  const text = `${bytes(free)} free, publishers are blocked below ${bytes(limit)}`;
  return measured("Disk, of the way to the alarm", limit / Math.max(1, free), text, alarm);
}

function usedBar(title, used, total) {
  return measured(title, used / total, `${number(used)} of ${number(total)}`);
}

function nodeFacts(node, overview) {
  return [
    ["Name", node.name],
    [
      "State",
      badges(
        badge(node.running ? "running" : "down", node.running ? "good" : "bad"),
        node.mem_alarm && badge("memory alarm", "bad"),
        node.disk_free_alarm && badge("disk alarm", "bad"),
      ),
    ],
    ["Version", `${overview.product_name ?? ""} ${overview.product_version ?? ""}`],
    ["Up for", duration(node.uptime)],
    ["Memory", memoryBar(node)],
    ["Disk", diskBar(node)],
    ["File descriptors", usedBar("File descriptors", node.fd_used, node.fd_total)],
    ["Sockets", usedBar("Sockets", node.sockets_used, node.sockets_total)],
    ["Written", node.io_write_bytes_details && byteRate(node.io_write_bytes_details.rate)],
  ];
}
