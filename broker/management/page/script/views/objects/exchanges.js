/** The list of exchanges, and the form that declares one. */

import { put } from "../../api/requests.js";
import { session, showsVhost } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { rate } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { badge, badges } from "../../widgets/facts.js";
import { choiceField, formDialog, textField } from "../../widgets/forms.js";
import { button, head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";
import { tableField } from "../../widgets/table_field.js";

/** The name of the default exchange, which is empty, in paths of the API. */
export const DEFAULT = "amq.default";

export function shownExchange(name) {
  return name || "(default)";
}

const COLUMNS = [
  {
    title: "Name",
    name: true,
    sort: "name",
    needs: ["name", "vhost"],
    show: (row) => nameLink(shownExchange(row.name), "exchanges", row.vhost, row.name || DEFAULT),
  },
  { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
  { title: "Type", sort: "type", show: (row) => row.type },
  { title: "Features", needs: ["durable", "auto_delete", "internal", "arguments", "policy"], show: exchangeFeatures },
  {
    title: "Incoming",
    number: true,
    sort: "message_stats.publish_in_details.rate",
    sum: rate,
    show: (row) => rate(row.message_stats?.publish_in_details?.rate),
  },
  {
    title: "Outgoing",
    number: true,
    sort: "message_stats.publish_out_details.rate",
    sum: rate,
    show: (row) => rate(row.message_stats?.publish_out_details?.rate),
  },
];

export function exchangeFeatures(row) {
  return badges(
    row.durable === false && badge("transient", "warning"),
    row.auto_delete && badge("auto-delete"),
    row.internal && badge("internal"),
    row.arguments?.["alternate-exchange"] && h("abbr", { class: "badge", title: "alternate exchange" }, "AE"),
    row.policy && badge(`policy ${row.policy}`),
  );
}

export function showExchanges(page) {
  const vhosts = session.entered("configure");
  const top = head("Exchanges", {
    actions: vhosts.length
      ? [button("Add an exchange…", () => addExchange(vhosts, () => list.refresh()), "primary")]
      : [],
  });
  const list = serverList(page, {
    parts: session.vhost ? ["exchanges", session.vhost] : ["exchanges"],
    columns: COLUMNS.filter((column) => column.title !== "Virtual host" || showsVhost()),
    key: (row) => `${row.vhost}\n${row.name}`,
    noun: "exchange",
    empty: "No exchanges.",
  });
  page.show(top.element, list.element);
}

function addExchange(vhosts, done) {
  const at = session.vhost && vhosts.includes(session.vhost) ? session.vhost : vhosts[0];
  formDialog({
    title: "Add an exchange",
    action: "Add",
    fields: [
      textField("name", "Name", { required: true }),
      choiceField(
        "type",
        "Type",
        session.exchangeTypes.length ? session.exchangeTypes : ["direct", "fanout", "topic", "headers"],
      ),
      choiceField("vhost", "Virtual host", vhosts, { value: at }),
      choiceField("durable", "Survives a restart", [
        ["true", "Yes: durable"],
        ["false", "No: transient"],
      ]),
      choiceField("auto_delete", "Deleted after its last binding", [
        ["false", "No"],
        ["true", "Yes: auto-delete"],
      ]),
      choiceField("internal", "Clients may publish to it", [
        ["false", "Yes"],
        ["true", "No: internal"],
      ]),
      tableField("arguments", "Arguments", {
        presets: [
          ["alternate-exchange", "Text"],
          ["x-delayed-type", "Text"],
        ],
      }),
    ],
    send: ({ name, type, vhost, durable, auto_delete: autoDelete, internal, arguments: table }) =>
      put(["exchanges", vhost, name], {
        type,
        durable: durable === "true",
        auto_delete: autoDelete === "true",
        internal: internal === "true",
        arguments: table,
      }),
    said: "Exchange declared.",
    done,
  });
}
