/** The page of a connection: rates, client properties, channels, close. */

import { get, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { byteRate, bytes, moment, number } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { link } from "../../router.js";
import { lineChart, rangeChoice } from "../../widgets/charts.js";
import { confirmed } from "../../widgets/dialogs.js";
import { argumentLines, badge, facts, showFacts } from "../../widgets/facts.js";
import { button, card, cardWith, head } from "../../widgets/page_parts.js";
import { ranges, rates, samplesOf } from "../../widgets/samples.js";
import { shortTable } from "../../widgets/tables.js";
import { CHANNEL_COLUMNS } from "./channels.js";
import { activity } from "./connections.js";

const FLOWS = [
  { name: "recv_oct", title: "From the client" },
  { name: "send_oct", title: "To the client" },
];

export function showConnection(page) {
  const { name } = page.names;
  const top = head(name, { trail: [["Connections", link("connections")]] });
  const span = rangeChoice(ranges(false), "leveret.connection.range", () => refresh());
  const chart = lineChart("Bytes per second", FLOWS, byteRate, bytes);
  const about = facts([]);
  const client = facts([]);
  const channels = shortTable(CHANNEL_COLUMNS, (row) => row.name, {
    caption: "Channels",
    empty: "No open channels.",
  });
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      cardWith("Bytes", { actions: [span.element] }, chart.element),
      h("div", { class: "pair" }, card("Connection", about), card("Client properties", client)),
      card("Channels", channels.element),
    ),
  );

  async function load() {
    const [connection, itsChannels] = await Promise.all([
      get(["connections", name], samplesOf(span.range, "data_rates"), page.signal),
      get(["connections", name, "channels"], {}, page.signal),
    ]);
    top.about(
      connection.user_provided_name && badge(connection.user_provided_name, "accent"),
      activity(connection), connection.ssl && badge("TLS", "accent"), badge(connection.vhost));
    if (session.administrates || connection.user === session.name) {
      top.actions(closeButton(name));
    }
    chart.update({ recv_oct: rates(connection.recv_oct_details), send_oct: rates(connection.send_oct_details) });
    showFacts(about, connectionFacts(connection));
    showFacts(
      client,
      Object.entries(connection.client_properties ?? {}).map(([key, value]) => [
        key,
        typeof value === "object" ? argumentLines(value) : String(value),
      ]),
    );
    channels.show(itsChannels);
  }

  const refresh = page.fresh(load);
}

function closeButton(name) {
  const ask = () =>
    confirmed({
      title: "Close this connection?",
      text: [
        `The connection ${quoted(name)} is closed.`,
        "Its unacknowledged messages are requeued. Most clients reconnect automatically.",
      ],
      action: "Close the connection",
      run: async () => {
        await remove(["connections", name], { headers: { "x-reason": "Closed from the management page" } });
        location.hash = link("connections");
      },
    });
  return button("Close…", ask, "danger");
}

function connectionFacts(connection) {
  const tls = connection.ssl && [connection.ssl_protocol, connection.ssl_cipher].filter(Boolean).join(", ");
  return [
    ["User", connection.user],
    ["Virtual host", connection.vhost],
    ["Authentication", connection.auth_mechanism],
    ["Protocol", connection.protocol],
    ["TLS", tls || ""],
    ["Certificate", connection.peer_cert_subject],
    ["Connected", moment(connection.connected_at)],
    ["Heartbeat", connection.timeout ? `${number(connection.timeout)} s` : "none"],
    ["Largest frame", bytes(connection.frame_max)],
    [
      "Channels",
      `${number(connection.channels)} of ${connection.channel_max ? number(connection.channel_max) : "any number"}`,
    ],
    ["Received", bytes(connection.recv_oct)],
    ["Sent", bytes(connection.send_oct)],
    ["Waiting to be sent", connection.send_pend ? bytes(connection.send_pend) : ""],
  ];
}
