/** The page of a channel: rates, unacknowledged messages, consumers. */

import { get } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { compact, number, rate } from "../../dom/format.js";
import { link, nameLink } from "../../router.js";
import { lineChart, rangeChoice } from "../../widgets/charts.js";
import { badge, facts, showFacts, stateOf } from "../../widgets/facts.js";
import { card, cardWith, head } from "../../widgets/page_parts.js";
import { ranges, rates, samplesOf } from "../../widgets/samples.js";
import { shortTable } from "../../widgets/tables.js";
import { each } from "../overview.js";
import { CONSUMER_COLUMNS } from "../objects/consumers.js";
import { prefetch } from "./channels.js";

const FLOWS = [
  { name: "publish", title: "Published" },
  { name: "confirm", title: "Confirmed" },
  { name: "deliver_get", title: "Delivered" },
  { name: "ack", title: "Acknowledged" },
  { name: "redeliver", title: "Redelivered" },
  { name: "return_unroutable", title: "Returned" },
];

export function showChannel(page) {
  const { name } = page.names;
  const top = head(name, { trail: [["Channels", link("channels")]] });
  const span = rangeChoice(ranges(false), "leveret.channel.range", () => refresh());
  const chart = lineChart("Message rates", FLOWS, rate, compact);
  const about = facts([]);
  const consumers = shortTable(CONSUMER_COLUMNS, (row) => row.consumer_tag, {
    caption: "Consumers",
    empty: "No consumers.",
  });
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      cardWith("Message rates", { actions: [span.element] }, chart.element),
      card("Channel", about),
      card("Consumers", consumers.element),
    ),
  );

  async function load() {
    const channel = await get(["channels", name], samplesOf(span.range, "msg_rates"), page.signal);
    const connection = channel.connection_details?.name;
    const application = connection && (await applicationOf(connection, page.signal));
    top.about(
      application && badge(application, "accent"),
      stateOf(channel),
      channel.confirm && badge("confirms", "accent"),
      channel.transactional && badge("transactions", "accent"),
    );
    chart.update(each(FLOWS, (flow) => rates(channel.message_stats?.[`${flow}_details`])));
    showFacts(about, channelFacts(channel));
    consumers.show(channel.consumer_details ?? []);
  }

  const refresh = page.fresh(load);
}

/** The name that the client has given its connection; none if it is just being closed. */
async function applicationOf(connection, signal) {
  try {
    const found = await get(["connections", connection], { columns: "name,user_provided_name" }, signal);
    return found.user_provided_name;
  } catch (error) {
    if (error.status === 404) {
      return undefined;
    }
    throw error;
  }
}

function channelFacts(channel) {
  const connection = channel.connection_details?.name;
  return [
    ["Connection", connection && nameLink(connection, "connections", connection)],
    ["User", channel.user],
    ["Virtual host", channel.vhost],
    ["Prefetch", prefetch(channel)],
    ["Unacknowledged", number(channel.messages_unacknowledged)],
    ["Unconfirmed", channel.confirm && number(channel.messages_unconfirmed)],
    [
      "Uncommitted",
      channel.transactional &&
        `${number(channel.messages_uncommitted)} messages, ${number(channel.acks_uncommitted)} acknowledgements`,
    ],
  ];
}
