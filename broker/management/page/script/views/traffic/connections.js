/** The list of connections. */

import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { byteRate, number } from "../../dom/format.js";
import { link } from "../../router.js";
import { state } from "../../widgets/facts.js";
import { head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";

const COLUMNS = [
  { title: "Name", name: true, sort: "name", needs: ["name", "user_provided_name"], show: name },
  { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
  { title: "User", sort: "user", show: (row) => row.user },
  { title: "State", sort: "state", show: (row) => state(row.state) },
  { title: "TLS", sort: "ssl", show: (row) => (row.ssl ? "yes" : "no") },
  { title: "Channels", number: true, sort: "channels", show: (row) => number(row.channels) },
  {
    title: "From client",
    number: true,
    sort: "recv_oct_details.rate",
    show: (row) => byteRate(row.recv_oct_details?.rate),
  },
  {
    title: "To client",
    number: true,
    sort: "send_oct_details.rate",
    show: (row) => byteRate(row.send_oct_details?.rate),
  },
];

function name(row) {
  const address = h("a", { href: link("connections", row.name) }, row.user_provided_name || row.name);
  return row.user_provided_name ? [address, h("div", { class: "soft" }, row.name)] : address;
}

export function showConnections(page) {
  const top = head("Connections");
  const list = serverList(page, {
    parts: session.vhost ? ["vhosts", session.vhost, "connections"] : ["connections"],
    columns: COLUMNS,
    key: (row) => row.name,
    noun: "connection",
    empty: "No connections.",
  });
  page.show(top.element, list.element);
}
