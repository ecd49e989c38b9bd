/** The list of queues and streams, and the form that declares one. */

import { put } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { number, rate } from "../../dom/format.js";
import { link } from "../../router.js";
import { badge, badges, state } from "../../widgets/facts.js";
import { choiceField, formDialog, textField } from "../../widgets/forms.js";
import { button, head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";
import { tableField } from "../../widgets/table_field.js";

const COLUMNS = [
  {
    title: "Name",
    name: true,
    sort: "name",
    needs: ["name", "vhost"],
    show: (row) => h("a", { href: link("queues", row.vhost, row.name) }, row.name),
  },
  { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
  {
    title: "Type",
    sort: "type",
    needs: ["type", "durable", "auto_delete", "exclusive", "arguments", "policy"],
    show: features,
  },
  { title: "State", sort: "state", show: (row) => state(row.state) },
  { title: "Ready", number: true, sort: "messages_ready", show: (row) => number(row.messages_ready) },
  {
    title: "Unacked",
    number: true,
    sort: "messages_unacknowledged",
    show: (row) => number(row.messages_unacknowledged),
  },
  { title: "Total", number: true, sort: "messages", show: (row) => number(row.messages) },
  { title: "Consumers", number: true, sort: "consumers", show: (row) => number(row.consumers) },
  {
    title: "Incoming",
    number: true,
    sort: "message_stats.publish_details.rate",
    show: (row) => rate(row.message_stats?.publish_details?.rate),
  },
  {
    title: "Delivered",
    number: true,
    sort: "message_stats.deliver_get_details.rate",
    show: (row) => rate(row.message_stats?.deliver_get_details?.rate),
  },
];

const MARKED_ARGUMENTS = {
  "x-dead-letter-exchange": "DLX",
  "x-max-length": "max length",
  "x-max-length-bytes": "max bytes",
  "x-message-ttl": "TTL",
  "x-expires": "expires",
  "x-max-priority": "priorities",
  "x-single-active-consumer": "single active",
  "x-delivery-limit": "delivery limit",
};

/** Labels of the type and the special properties of a queue. */
export function features(row) {
  const marks = Object.keys(row.arguments ?? {}).filter((name) => name in MARKED_ARGUMENTS);
  return badges(
    badge(row.type ?? "classic", row.type === "stream" || row.type === "quorum" ? "accent" : ""),
    row.durable === false && badge("transient", "warning"),
    row.auto_delete && badge("auto-delete"),
    row.exclusive && badge("exclusive"),
    ...marks.map((name) =>
      h("span", { class: "badge", title: `${name}: ${row.arguments[name]}` }, MARKED_ARGUMENTS[name]),
    ),
    row.policy && badge(`policy ${row.policy}`),
  );
}

export function showQueues(page) {
  const vhosts = session.entered("configure");
  const top = head("Queues and streams", {
    actions: vhosts.length ? [button("Add a queue…", () => addQueue(vhosts, () => list.refresh()), "primary")] : [],
  });
  const list = serverList(page, {
    parts: session.vhost ? ["queues", session.vhost] : ["queues"],
    columns:
      session.vhosts.length > 1 && !session.vhost
        ? COLUMNS
        : COLUMNS.filter((column) => column.title !== "Virtual host"),
    key: (row) => `${row.vhost}\n${row.name}`,
    noun: "queue",
    empty: "No queues.",
  });
  page.show(top.element, list.element);
}

const PRESETS = [
  ["x-message-ttl", "Number"],
  ["x-expires", "Number"],
  ["x-max-length", "Number"],
  ["x-max-length-bytes", "Number"],
  ["x-overflow", "Text"],
  ["x-dead-letter-exchange", "Text"],
  ["x-dead-letter-routing-key", "Text"],
  ["x-single-active-consumer", "Boolean"],
  ["x-max-priority", "Number"],
  ["x-delivery-limit", "Number"],
  ["x-max-age", "Text"],
];

function addQueue(vhosts, done) {
  const at = session.vhost && vhosts.includes(session.vhost) ? session.vhost : vhosts[0];
  formDialog({
    title: "Add a queue or a stream",
    action: "Add",
    fields: [
      textField("name", "Name", { required: true }),
      choiceField("type", "Type", [
        ["classic", "Classic"],
        ["quorum", "Quorum"],
        ["stream", "Stream"],
      ]),
      choiceField("vhost", "Virtual host", vhosts, { value: at }),
      choiceField("durable", "Survives a restart", [
        ["true", "Yes: durable"],
        ["false", "No: transient"],
      ]),
      choiceField("auto_delete", "Deleted after its last consumer", [
        ["false", "No"],
        ["true", "Yes: auto-delete"],
      ]),
      tableField("arguments", "Arguments", { presets: PRESETS }),
    ],
    send: ({ name, type, vhost, durable, auto_delete: autoDelete, arguments: table }) =>
      put(["queues", vhost, name], {
        durable: durable === "true",
        auto_delete: autoDelete === "true",
        arguments: { "x-queue-type": type, ...table },
      }),
    said: "Queue declared.",
    done,
  });
}
