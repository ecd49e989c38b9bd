/** Bindings of an exchange or queue: list, add, remove. */

import { post, remove } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { quoted } from "../../dom/visible.js";
import { nameLink } from "../../router.js";
import { confirmed } from "../../widgets/dialogs.js";
import { argumentLines, mono } from "../../widgets/facts.js";
import { choiceField, form, textField } from "../../widgets/forms.js";
import { button } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";
import { tableField } from "../../widgets/table_field.js";
import { shortTable } from "../../widgets/tables.js";
import { DEFAULT, shownExchange } from "./exchanges.js";

const KINDS = { queue: "q", exchange: "e" };

/** A table of bindings; `end` is the end that is shown: "source" or "destination". `changed` is called after a removal. */
export function bindingTable(end, mayUnbind, changed, empty) {
  const columns = [
    {
      title: end === "source" ? "From exchange" : "To",
      name: true,
      show: (row) => (end === "source" ? source(row) : destination(row)),
    },
    { title: "Routing key", show: (row) => mono(row.routing_key) },
    { title: "Arguments", show: (row) => argumentLines(row.arguments) },
    {
      title: "",
      show: (row) =>
        mayUnbind(row) &&
        row.source !== "" &&
        h(
          "div",
          { class: "actions" },
          button("Unbind…", () => unbind(row, changed), "plain danger"),
        ),
    },
  ];
  return shortTable(columns, bindingKey, { caption: "Bindings", empty });
}

function bindingKey(row) {
  return [row.source, row.destination_type, row.destination, row.properties_key].join("\n");
}

function source(row) {
  return nameLink(shownExchange(row.source), "exchanges", row.vhost, row.source || DEFAULT);
}

function destination(row) {
  const kind = row.destination_type === "queue" ? "queues" : "exchanges";
  return [
    nameLink(row.destination, kind, row.vhost, row.destination),
    h("span", { class: "soft" }, ` ${row.destination_type}`),
  ];
}

function unbind(row, changed) {
  const ends = [row.source, KINDS[row.destination_type], row.destination];
  return confirmed({
    title: "Remove this binding?",
    text: `From ${quoted(row.source)} to ${row.destination_type} ${quoted(row.destination)}${row.routing_key ? `, key ${quoted(row.routing_key)}` : ""}. Messages are no longer routed by it.`,
    action: "Unbind",
    run: async () => {
      await remove(["bindings", row.vhost, "e", ends[0], ends[1], ends[2], row.properties_key]);
      say("Binding removed.");
      changed();
    },
  });
}

/** A form that binds `name` to an exchange or, as the source, to a queue or exchange. */
export function bindingForm({ vhost, name, as, changed }) {
  const other =
    as === "source"
      ? [
          choiceField("kind", "To", [
            ["queue", "Queue"],
            ["exchange", "Exchange"],
          ]),
          textField("other", "Name", { required: true }),
        ]
      : [textField("other", "From exchange", { required: true })];
  return form({
    fields: [...other, textField("key", "Routing key", { kept: true }), tableField("arguments", "Arguments")],
    action: "Bind",
    send: (values) => {
      const [from, kind, to] = as === "source" ? [name, KINDS[values.kind], values.other] : [values.other, "q", name];
      return post(["bindings", vhost, "e", from, kind, to], { routing_key: values.key, arguments: values.arguments });
    },
    cleared: ["other", "key"],
    done: () => {
      say("Binding added.");
      changed();
    },
  });
}
