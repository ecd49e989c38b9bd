/** The list of channels. */

import { session, showsVhost } from "../../api/session.js";
import { clientEnd, number, rate } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { badge, badges, stateOf } from "../../widgets/facts.js";
import { head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";

export const CHANNEL_COLUMNS = [
  { title: "Channel", name: true, short: true, sort: "name", show: (row) => nameLink(clientEnd(row.name), "channels", row.name) },
  { title: "State", sort: "idle_since", needs: ["state", "confirm", "transactional", "idle_since"], show: modes },
  {
    title: "Prefetch",
    number: true,
    sort: "prefetch_count",
    needs: ["prefetch_count", "global_prefetch_count"],
    show: prefetch,
  },
  {
    title: "Unacked",
    number: true,
    sort: "messages_unacknowledged",
    sum: number,
    show: (row) => number(row.messages_unacknowledged),
  },
  { title: "Unconfirmed", number: true, sort: "messages_unconfirmed", sum: number, show: (row) => number(row.messages_unconfirmed) },
  { title: "Consumers", number: true, sort: "consumer_count", sum: number, show: (row) => number(row.consumer_count) },
  {
    title: "Publish",
    number: true,
    sort: "message_stats.publish_details.rate",
    sum: rate,
    show: (row) => rate(row.message_stats?.publish_details?.rate),
  },
  {
    title: "Deliver",
    number: true,
    sort: "message_stats.deliver_get_details.rate",
    sum: rate,
    show: (row) => rate(row.message_stats?.deliver_get_details?.rate),
  },
  {
    title: "Ack",
    number: true,
    sort: "message_stats.ack_details.rate",
    sum: rate,
    show: (row) => rate(row.message_stats?.ack_details?.rate),
  },
  {
    title: "Redeliver",
    number: true,
    off: true,
    sort: "message_stats.redeliver_details.rate",
    sum: rate,
    show: (row) => rate(row.message_stats?.redeliver_details?.rate),
  },
];

const WITH_USER = [
  CHANNEL_COLUMNS[0],
  {
    title: "Application",
    sort: "user_provided_name",
    show: (row) => row.user_provided_name ?? "",
  },
  { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
  { title: "User", sort: "user", off: true, show: (row) => row.user },
  ...CHANNEL_COLUMNS.slice(1),
];

function modes(row) {
  return badges(
    stateOf(row),
    row.confirm && badge("confirms", "accent"),
    row.transactional && badge("transactions", "accent"),
  );
}

export function prefetch(row) {
  const limits = [
    row.prefetch_count && number(row.prefetch_count),
    row.global_prefetch_count && `${number(row.global_prefetch_count)} in all`,
  ];
  return limits.filter(Boolean).join(", ") || "any";
}

export function showChannels(page) {
  const top = head("Channels");
  const list = serverList(page, {
    parts: session.vhost ? ["vhosts", session.vhost, "channels"] : ["channels"],
    columns: WITH_USER.filter((column) => column.title !== "Virtual host" || showsVhost()),
    key: (row) => row.name,
    noun: "channel",
    empty: "No open channels.",
  });
  page.show(top.element, list.element);
}
