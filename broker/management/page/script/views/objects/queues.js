/** The list of queues and streams, and the form that declares one. */

import { put } from "../../api/requests.js";
import { session, showsVhost } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { bytes, number, rate } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { badge, badges, plain, stateOf } from "../../widgets/facts.js";
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
    show: (row) => nameLink(row.name, "queues", row.vhost, row.name),
  },
  { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
  { title: "Type", short: true, sort: "type", show: type },
  { title: "State", short: true, sort: "idle_since", needs: ["state", "idle_since"], show: stateOf },
  {
    title: "Features",
    needs: ["durable", "auto_delete", "exclusive", "arguments", "policy"],
    show: (row) => badges(...marks(row).map(([short, long]) => h("abbr", { class: "badge", title: long }, short))),
  },
  { title: "Policy", sort: "policy", off: true, show: (row) => row.policy ?? "" },
  { title: "Ready", number: true, sort: "messages_ready", sum: number, show: (row) => number(row.messages_ready) },
  {
    title: "Unacked",
    number: true,
    sort: "messages_unacknowledged",
    sum: number,
    show: (row) => number(row.messages_unacknowledged),
  },
  { title: "Total", number: true, sort: "messages", sum: number, show: (row) => number(row.messages) },
  {
    title: "Bytes",
    number: true,
    off: true,
    sort: "message_bytes",
    sum: bytes,
    show: (row) => bytes(row.message_bytes),
  },
  { title: "Consumers", number: true, sort: "consumers", sum: number, show: (row) => number(row.consumers) },
  flow("Incoming", "publish"),
  flow("Delivered", "deliver_get"),
  flow("Acked", "ack"),
  flow("Redelivered", "redeliver"),
];

function flow(title, counter) {
  return {
    title,
    number: true,
    sort: `message_stats.${counter}_details.rate`,
    sum: rate,
    show: (row) => rate(row.message_stats?.[`${counter}_details`]?.rate),
  };
}

const SELECTIONS = [
  ["", "All queues"],
  ["filled", "With messages"],
  ["unacknowledged", "With unacknowledged messages"],
  ["unconsumed", "Messages but no consumers"],
];

const MARKED_ARGUMENTS = {
  "x-dead-letter-exchange": ["DLX", "dead letters"],
  "x-max-length": ["Lim", "max length"],
  "x-max-length-bytes": ["Lim", "max bytes"],
  "x-message-ttl": ["TTL", "TTL"],
  "x-expires": ["Exp", "expires"],
  "x-max-priority": ["Pri", "priorities"],
  "x-single-active-consumer": ["SAC", "single active consumer"],
  "x-delivery-limit": ["DL", "delivery limit"],
};

/** Labels of the special properties of a queue: pairs of a short and a long text. */
function marks(row) {
  const set = Object.entries(row.arguments ?? {}).filter(([name]) => name in MARKED_ARGUMENTS);
  return [
    row.durable === false && ["T", "transient"],
    row.auto_delete && ["AD", "auto-delete"],
    row.exclusive && ["Excl", "exclusive"],
    ...set.map(([name, value]) => [MARKED_ARGUMENTS[name][0], `${MARKED_ARGUMENTS[name][1]}: ${plain(value)}`]),
    row.policy && ["Pol", `policy ${row.policy}`],
  ].filter(Boolean);
}

function type(row) {
  return badge(row.type ?? "classic", row.type === "stream" || row.type === "quorum" ? "accent" : "");
}

/** Labels of the type and the special properties of a queue, in words. */
export function features(row) {
  return badges(type(row), ...marks(row).map(([, long]) => badge(long)));
}

export function showQueues(page) {
  const vhosts = session.entered("configure");
  const top = head("Queues and streams", {
    actions: vhosts.length ? [button("Add a queue…", () => addQueue(vhosts, () => list.refresh()), "primary")] : [],
  });
  const list = serverList(page, {
    parts: session.vhost ? ["queues", session.vhost] : ["queues"],
    columns: COLUMNS.filter((column) => column.title !== "Virtual host" || showsVhost()),
    key: (row) => `${row.vhost}\n${row.name}`,
    noun: "queue",
    only: SELECTIONS,
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
