/** A form that publishes one message. */

import { post } from "../../api/requests.js";
import { areaField, choiceField, form, numberField, textField } from "../../widgets/forms.js";
import { complain, say } from "../../widgets/notices.js";
import { tableField } from "../../widgets/table_field.js";
import { DEFAULT } from "./exchanges.js";

const PROPERTIES = [
  ["content_encoding", "Text"],
  ["correlation_id", "Text"],
  ["reply_to", "Text"],
  ["expiration", "Text"],
  ["message_id", "Text"],
  ["timestamp", "Number"],
  ["type", "Text"],
  ["user_id", "Text"],
  ["app_id", "Text"],
];

/** `key` is the routing key, the name of a queue; without it the form has a field for it. */
export function publishForm({ vhost, exchange = DEFAULT, key = null, published = () => {} }) {
  return form({
    fields: [
      ...(key === null ? [textField("key", "Routing key", { kept: true })] : []),
      choiceField("mode", "Survives a restart", [
        ["2", "Yes: persistent"],
        ["1", "No: transient"],
      ]),
      textField("type", "Content type", { placeholder: "application/json" }),
      numberField("priority", "Priority", { min: 0, max: 255 }),
      choiceField("encoding", "The payload is", [
        ["string", "Text"],
        ["base64", "Base64 of bytes"],
      ]),
      areaField("payload", "Payload"),
      tableField("headers", "Headers"),
      tableField("properties", "Further properties", { presets: PROPERTIES }),
    ],
    action: "Publish",
    send: (values) => post(["exchanges", vhost, exchange, "publish"], bodyOf(values, key)),
    done: ({ routed }) => {
      if (routed) {
        say("Published and confirmed.");
      } else {
        complain(new Error("Published, but not routed to a queue: no binding matches the routing key."));
      }
      published();
    },
  });
}

function bodyOf(values, key) {
  const properties = { ...values.properties, delivery_mode: Number(values.mode) };
  const given = { content_type: values.type, priority: values.priority };
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) {
      properties[name] = value;
    }
  }
  if (Object.keys(values.headers).length) {
    properties.headers = values.headers;
  }
  return { properties, routing_key: key ?? values.key, payload: values.payload, payload_encoding: values.encoding };
}
