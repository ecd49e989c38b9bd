/** The list of connections. */

import { session, showsVhost } from "../../api/session.js";
import { byteRate, clientEnd, moment, number } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { badge, state } from "../../widgets/facts.js";
import { head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";

const COLUMNS = [
  { title: "Application", name: true, sort: "user_provided_name", needs: ["name", "user_provided_name"], show: name },
  { title: "Address", sort: "name", show: (row) => (row.user_provided_name ? clientEnd(row.name) : "") },
  { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
  { title: "User", sort: "user", show: (row) => row.user },
  { title: "State", sort: "state", needs: ["state", "recv_oct_details", "send_oct_details"], show: activity },
  { title: "TLS", sort: "ssl", show: (row) => (row.ssl ? "yes" : "no") },
  { title: "Protocol", sort: "protocol", off: true, show: (row) => row.protocol },
  { title: "Connected", sort: "connected_at", off: true, show: (row) => moment(row.connected_at) },
  { title: "Heartbeat", number: true, sort: "timeout", off: true, show: (row) => (row.timeout ? `${number(row.timeout)} s` : "none") },
  { title: "Channels", number: true, sort: "channels", sum: number, show: (row) => number(row.channels) },
  {
    title: "From client",
    number: true,
    sort: "recv_oct_details.rate",
    sum: byteRate,
    show: (row) => byteRate(row.recv_oct_details?.rate),
  },
  {
    title: "To client",
    number: true,
    sort: "send_oct_details.rate",
    sum: byteRate,
    show: (row) => byteRate(row.send_oct_details?.rate),
  },
];

function name(row) {
  return nameLink(row.user_provided_name || clientEnd(row.name), "connections", row.name);
}

const HEARTBEATS = 4;

/** The state; idle is a connection with no more bytes per second than heartbeats have. */
export function activity(row) {
  const busy = (row.recv_oct_details?.rate ?? 0) + (row.send_oct_details?.rate ?? 0) > HEARTBEATS;
  return row.state === "running" && !busy ? badge("idle") : state(row.state);
}

export function showConnections(page) {
  const top = head("Connections");
  const list = serverList(page, {
    parts: session.vhost ? ["vhosts", session.vhost, "connections"] : ["connections"],
    columns: COLUMNS.filter((column) => column.title !== "Virtual host" || showsVhost()),
    key: (row) => row.name,
    noun: "connection",
    empty: "No connections.",
  });
  page.show(top.element, list.element);
}
