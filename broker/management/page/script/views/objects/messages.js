/** Browsing messages: a look that changes nothing, or get; a stream is read from any offset. */

import { get, post } from "../../api/requests.js";
import { h, show } from "../../dom/element.js";
import { bytes, moment, number } from "../../dom/format.js";
import { save } from "../../dom/download.js";
import { confirmed } from "../../widgets/dialogs.js";
import { nameLink } from "../../router.js";
import { argumentLines, badge, facts, mono, plain } from "../../widgets/facts.js";
import { choiceField, form, numberField, textField } from "../../widgets/forms.js";
import { button } from "../../widgets/page_parts.js";
import { shownExchange } from "./exchanges.js";

const SHOWN_BYTES = 50000;
const MESSAGES_MAX = 1000;
const PEEK = "ready";
const PEEK_HELD = "unacknowledged";

/** The form for a classic or quorum queue, with the messages below. `taken` is called after messages were fetched. */
export function browseQueue({ vhost, name, taken }) {
  const list = h("div", { class: "messages", role: "status" });
  const pages = h("div", { class: "pager", hidden: true });
  let turnedTo = null; // the offsets of this page and of those before it, if a button of the pages was pressed
  const look = async (state, wanted) => {
    const offsets = turnedTo ?? [0];
    turnedTo = null;
    const query = { ...wanted, state, offset: offsets.at(-1), truncate: SHOWN_BYTES };
    const found = await get(["queues", vhost, name, "peek"], query);
    return { ...found, offsets, state, all: found[`messages_${state}`] };
  };
  const turn = (offsets) => {
    turnedTo = offsets;
    element.requestSubmit();
  };
  const element = form({
    fields: [
      numberField("count", "Messages", { value: 10, min: 1, max: MESSAGES_MAX, required: true }),
      choiceField("how", "How", [
        [PEEK, "Peek (changes nothing)"],
        [PEEK_HELD, "Peek at unacknowledged messages"],
        ["ack_requeue_true", "Get, and return to the queue"],
        ["ack_requeue_false", "Get, and remove from the queue"],
        ["reject_requeue_false", "Get, and reject: dead-letter or remove"],
      ]),
      choiceField("encoding", "Payloads", [
        ["auto", "As text if possible"],
        ["base64", "Base64"],
      ]),
      textField("routing_key", "Routing key", { hint: "Peek only messages with this key." }),
      textField("header", "Header", { placeholder: "NAME or NAME:VALUE", hint: "Peek only messages with this header." }),
    ],
    action: "Get messages",
    send: async ({ how, ...wanted }) => {
      if (how === PEEK || how === PEEK_HELD) {
        return look(how, wanted);
      }
      const { count, encoding } = wanted;
      const take = () => post(["queues", vhost, name, "get"], { count, ackmode: how, encoding, truncate: SHOWN_BYTES });
      let messages = null;
      if (how === "ack_requeue_true") {
        messages = await take();
      } else {
        await confirmed({
          title: "Remove messages from the queue?",
          text: `Up to ${number(count)} messages are removed from the queue ${name}, and not delivered to its consumers.`,
          action: "Remove messages",
          run: async () => (messages = await take()),
        });
      }
      return messages && { messages };
    },
    done: (found) => {
      if (found) {
        showMessages(list, found.messages, found.offsets ? nothingSeen(found) : "The queue has no ready message.");
        showPages(pages, found, turn);
        taken();
      }
    },
  });
  return h("div", {}, element, list, pages);
}

function nothingSeen({ looked_at, all, state }) {
  return all ? `No message among the ${number(looked_at)} that were looked at.` : `The queue has no ${state} message.`;
}

/** Show where these messages are in the queue, with buttons to those before and behind; nothing after get. */
function showPages(element, { messages, offsets, next_offset, all, state }, turn) {
  element.hidden = !all;
  if (element.hidden) {
    show(element);
    return;
  }
  const [first, last] = [messages[0]?.position, messages.at(-1)?.position];
  const place = first === undefined ? "None" : `${number(first + 1)} to ${number(last + 1)}`;
  const older = button("Older", () => turn(offsets.slice(0, -1)));
  const newer = button("Newer", () => turn([...offsets, next_offset]));
  older.disabled = offsets.length < 2;
  newer.disabled = next_offset === null;
  show(element, h("span", {}, `${place} of ${number(all)} ${state}`), h("div", { class: "actions" }, older, newer));
}

/** The form for a stream, with the messages below. */
export function browseStream({ vhost, name }) {
  const list = h("div", { class: "messages", role: "status" });
  const element = form({
    fields: [
      choiceField("from", "From", [
        ["first", "The first message"],
        ["last", "The last chunk"],
        ["offset", "An offset"],
        ["interval", "A time ago, such as 5m or 2h"],
      ]),
      textField("value", "Offset, or time ago"),
      numberField("count", "Messages", { value: 10, min: 1, max: MESSAGES_MAX, required: true }),
    ],
    action: "Read",
    send: ({ from, value, count }) =>
      post(["leveret", "streams", vhost, name], {
        offset: offsetOf(from, value),
        count,
        encoding: "auto",
        truncate: SHOWN_BYTES,
      }),
    done: (messages) => showMessages(list, messages, "The stream has no message from there on."),
  });
  return h("div", {}, element, list);
}

function offsetOf(from, value) {
  if (from === "offset") {
    return Number(value);
  }
  return from === "interval" ? value : from;
}

function showMessages(list, messages, empty) {
  show(list, ...(messages.length ? messages.map(shownMessage) : [h("p", { class: "empty" }, empty)]));
}

export function shownMessage(message, place) {
  return h(
    "article",
    { class: "message" },
    h(
      "header",
      {},
      h(
        "span",
        { class: "number" },
        message.offset === undefined
          ? `Message ${number((message.position ?? place) + 1)}`
          : `Offset ${number(message.offset)}`,
      ),
      h("span", {}, h("span", { class: "soft" }, "exchange "), shownExchange(message.exchange)),
      h("span", {}, h("span", { class: "soft" }, "key "), mono(message.routing_key)),
      message.channel && h("span", {}, h("span", { class: "soft" }, "channel "), heldBy(message.channel)),
      h("span", { class: "soft" }, bytes(message.payload_bytes)),
      message.redelivered && badge("redelivered"),
    ),
    facts(Object.entries(Array.isArray(message.properties) ? {} : (message.properties ?? {})).map(property)),
    payload(message),
  );
}

function heldBy(channel) {
  return nameLink(channel, "channels", channel);
}

function property([name, value]) {
  if (name === "timestamp") {
    return [name, moment(value * 1000)];
  }
  if (name === "delivery_mode") {
    return [name, value === 2 ? "2, persistent" : `${value}, transient`];
  }
  return [name, typeof value === "object" ? argumentLines(value) : plain(value)];
}

function payload(message) {
  const cut =
    message.payload_encoding === "string"
      ? new TextEncoder().encode(message.payload).length
      : (message.payload.length * 3) / 4;
  const remarks = [
    message.payload_encoding === "base64" && "Base64.",
    cut + 3 < message.payload_bytes && `The first ${bytes(cut)} of ${bytes(message.payload_bytes)}.`,
  ].filter(Boolean);
  const keep = button("Save", () => save(blobOf(message), "payload"), "plain");
  return h(
    "div",
    {},
    h("pre", { class: "payload", tabindex: "0" }, pretty(message)),
    h("p", { class: "small soft" }, remarks.join(" "), " ", keep),
  );
}

function blobOf(message) {
  if (message.payload_encoding === "base64") {
    return new Blob([Uint8Array.from(atob(message.payload), (character) => character.charCodeAt(0))]);
  }
  return new Blob([message.payload], { type: "text/plain" });
}

/** Indent a payload of JSON; return others unchanged. */
function pretty(message) {
  if (message.payload_encoding === "string" && /^\s*[[{]/.test(message.payload)) {
    try {
      return JSON.stringify(JSON.parse(message.payload), null, 2);
    } catch {
      return message.payload; // truncated, or not JSON
    }
  }
  return message.payload;
}
