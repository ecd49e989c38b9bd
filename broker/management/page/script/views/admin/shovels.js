/** The list of shovels, and the form that adds one. */

import { put, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { number } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { confirmed } from "../../widgets/dialogs.js";
import { badge, mono, state } from "../../widgets/facts.js";
import { choiceField, formDialog, textField } from "../../widgets/forms.js";
import { attempt } from "../../widgets/notices.js";
import { button, head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";
import { tableField } from "../../widgets/table_field.js";

const LEAD = "A shovel moves messages to another queue, exchange or broker, as long as it exists.";
const PRESETS = [
  ["src-prefetch-count", "Number"],
  ["src-delete-after", "Text"],
  ["src-exchange-key", "Text"],
  ["dest-exchange-key", "Text"],
  ["dest-add-forward-headers", "Boolean"],
  ["dest-add-timestamp-header", "Boolean"],
  ["reconnect-delay", "Number"],
];
const KINDS = [
  ["queue", "Queue"],
  ["exchange", "Exchange"],
];

export function showShovels(page) {
  const vhosts = session.setsPolicies ? session.entered() : [];
  const changed = () => list.refresh();
  const top = head("Shovels", {
    lead: LEAD,
    actions: vhosts.length ? [button("Add a shovel…", () => addShovel(vhosts, changed), "primary")] : [],
  });
  const list = serverList(page, {
    parts: session.vhost ? ["shovels", session.vhost] : ["shovels"],
    columns: columns(changed),
    keep: ["type", "reason"],
    key: (row) => `${row.vhost}\n${row.name}`,
    noun: "shovel",
    empty: "No shovels.",
  });
  page.show(top.element, list.element);
}

function columns(changed) {
  return [
    { title: "Name", name: true, sort: "name", show: (row) => row.name },
    { title: "Virtual host", sort: "vhost", show: (row) => row.vhost ?? "" },
    { title: "Kind", sort: "type", off: true, show: (row) => badge(row.type) },
    { title: "State", sort: "state", needs: ["state", "reason"], show: stateOfShovel },
    { title: "From", sort: "src_uri", needs: needs("src"), show: (row) => end(row, "src") },
    { title: "To", sort: "dest_uri", needs: needs("dest"), show: (row) => end(row, "dest") },
    { title: "Since", sort: "timestamp", show: (row) => row.timestamp ?? "" },
    { title: "Remaining", number: true, off: true, sort: "remaining", show: (row) => figure(row.remaining) },
    { title: "Forwarded", number: true, off: true, sort: "forwarded", show: (row) => figure(row.forwarded) },
    { title: "", show: (row) => row.type === "dynamic" && session.setsPolicies && actions(row, changed) },
  ];
}

function needs(side) {
  return ["uri", "queue", "exchange", "exchange_key"].map((name) => `${side}_${name}`);
}

function stateOfShovel(row) {
  return row.reason ? [state(row.state), h("div", { class: "soft" }, String(row.reason))] : state(row.state);
}

/** The queue or exchange at one end; one at another broker has no page here. */
function end(row, side) {
  const [uri, queue, exchange] = [row[`${side}_uri`], row[`${side}_queue`], row[`${side}_exchange`]];
  if (!uri) {
    return "";
  }
  const key = row[`${side}_exchange_key`];
  const what = queue ? `queue ${queue}` : exchange ? `exchange ${exchange}` : "as published";
  return [what, key && h("span", { class: "soft" }, ` ${key}`), h("div", { class: "soft" }, mono(uri))].filter(Boolean);
}

function figure(value) {
  return typeof value === "number" ? number(value) : (value ?? "–");
}

function actions(row, changed) {
  const parts = ["shovels", "vhost", row.vhost, row.name];
  const restart = () => attempt(() => remove([...parts, "restart"]), changed);
  const away = () =>
    confirmed({
      title: "Delete this shovel?",
      text: `The shovel ${quoted(row.name)} ends. Messages that it has not moved stay where they are.`,
      action: "Delete the shovel",
      run: async () => {
        await remove(parts);
        changed();
      },
    });
  return h("div", { class: "actions" }, button("Restart", restart, "plain"), button("Delete…", away, "plain danger"));
}

function addShovel(vhosts, done) {
  const at = session.vhost && vhosts.includes(session.vhost) ? session.vhost : vhosts[0];
  const uri = { required: true, placeholder: "amqp://user:password@host/vhost", hint: "amqp:// is this broker." };
  formDialog({
    title: "Add a shovel",
    action: "Add",
    fields: [
      textField("name", "Name", { required: true }),
      choiceField("vhost", "Virtual host", vhosts, { value: at }),
      textField("fromUri", "From: URI", uri),
      choiceField("fromKind", "From: kind", KINDS),
      textField("from", "From: name", { required: true }),
      textField("toUri", "To: URI", uri),
      choiceField("toKind", "To: kind", KINDS),
      textField("to", "To: name", { hint: "Empty: the exchange and key of each message." }),
      choiceField("ack", "Acknowledges", [
        ["on-confirm", "On confirm: loses nothing"],
        ["on-publish", "On publish"],
        ["no-ack", "Not at all"],
      ]),
      tableField("more", "Further keys", { presets: PRESETS }),
    ],
    send: (values) => put(["parameters", "shovel", values.vhost, values.name], { value: definition(values) }),
    said: "Shovel added.",
    done,
  });
}

function definition({ fromUri, fromKind, from, toUri, toKind, to, ack, more }) {
  return {
    "src-uri": fromUri,
    [`src-${fromKind}`]: from,
    "dest-uri": toUri,
    ...(to ? { [`dest-${toKind}`]: to } : {}),
    "ack-mode": ack,
    ...more,
  };
}
