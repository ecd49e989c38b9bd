/** Columns of the consumers of a channel or queue. */

import { nameLink } from "../../router.js";
import { argumentLines, badge, badges } from "../../widgets/facts.js";

export const CONSUMER_COLUMNS = [
  { title: "Tag", name: true, show: (row) => row.consumer_tag },
  {
    title: "Queue",
    show: (row) => row.queue && nameLink(row.queue.name, "queues", row.queue.vhost, row.queue.name),
  },
  {
    title: "Channel",
    show: (row) =>
      row.channel_details?.name &&
      nameLink(row.channel_details.name, "channels", row.channel_details.name),
  },
  { title: "Mode", show: modes },
  { title: "Prefetch", number: true, show: (row) => (row.prefetch_count ? String(row.prefetch_count) : "any") },
  { title: "Arguments", show: (row) => argumentLines(row.arguments) },
];

function modes(row) {
  return badges(
    row.ack_required ? badge("acknowledges") : badge("no acks", "warning"),
    row.exclusive && badge("exclusive"),
    row.active === false && badge("waits", "warning"),
  );
}
