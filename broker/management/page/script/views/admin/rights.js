/** Tables and forms of permissions and topic permissions. */

import { put, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { quoted } from "../../dom/visible.js";
import { nameLink } from "../../router.js";
import { confirmed } from "../../widgets/dialogs.js";
import { mono } from "../../widgets/facts.js";
import { choiceField, form, textField } from "../../widgets/forms.js";
import { button } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";

const USER = {
  title: "User",
  name: true,
  sort: "user",
  show: (row) => nameLink(row.user, "users", row.user),
};
const VHOST = {
  title: "Virtual host",
  sort: "vhost",
  show: (row) => nameLink(row.vhost, "vhosts", row.vhost),
};

function pattern(title, name) {
  return { title, sort: name, show: (row) => mono(row[name] === "" ? "(nothing)" : row[name]) };
}

/** Columns of permissions. `of` is the column that the page implies, and that is not shown: "user", "vhost" or "". */
export function permissionColumns(of, changed) {
  return [
    ...ends(of),
    pattern("Configure", "configure"),
    pattern("Write", "write"),
    pattern("Read", "read"),
    clearing((row) => clearPermission(row, changed)),
  ];
}

export function topicColumns(of, changed) {
  const exchange = { title: "Exchange", sort: "exchange", show: (row) => row.exchange || "(default)" };
  return [
    ...ends(of),
    exchange,
    pattern("Write", "write"),
    pattern("Read", "read"),
    clearing((row) => clearTopic(row, changed)),
  ];
}

function ends(of) {
  return [of !== "user" && USER, of !== "vhost" && { ...VHOST, name: of === "user" }].filter(Boolean);
}

function clearing(clear) {
  return {
    title: "",
    show: (row) =>
      h(
        "div",
        { class: "actions" },
        button("Clear…", () => clear(row), "plain danger"),
      ),
  };
}

function clearPermission(row, changed) {
  return confirmed({
    title: "Clear these permissions?",
    text: `User ${quoted(row.user)} may no longer enter the virtual host ${quoted(row.vhost)}.`,
    action: "Clear",
    run: async () => {
      await remove(["permissions", row.vhost, row.user]);
      changed();
    },
  });
}

function clearTopic(row, changed) {
  return confirmed({
    title: "Clear this topic permission?",
    text: `User ${quoted(row.user)} may then use any routing key with the exchange ${row.exchange || "(default)"} of ${quoted(row.vhost)}.`,
    action: "Clear",
    run: async () => {
      await remove(["topic-permissions", row.vhost, row.user, row.exchange]);
      changed();
    },
  });
}

/** Fields for the user and the virtual host, if the page does not imply them. */
function place({ user, vhost }) {
  return [
    user === undefined && textField("user", "User", { required: true }),
    vhost === undefined &&
      choiceField("vhost", "Virtual host", session.vhosts, { value: session.vhost || session.vhosts[0] }),
  ].filter(Boolean);
}

export function permissionForm({ user, vhost, changed }) {
  return form({
    fields: [
      ...place({ user, vhost }),
      textField("configure", "Configure", { value: ".*", kept: true, hint: "Names that it may declare and delete" }),
      textField("write", "Write", { value: ".*", kept: true, hint: "Names that it may publish to, and bind" }),
      textField("read", "Read", { value: ".*", kept: true, hint: "Names that it may consume from, purge, and bind to" }),
    ],
    action: "Set permissions",
    send: ({ configure, write, read, ...where }) =>
      put(["permissions", vhost ?? where.vhost, user ?? where.user], { configure, write, read }),
    done: () => {
      say("Permissions set.");
      changed();
    },
  });
}

export function topicForm({ user, vhost, changed }) {
  return form({
    fields: [
      ...place({ user, vhost }),
      textField("exchange", "Exchange", { required: true, placeholder: "amq.topic" }),
      textField("write", "Write", { value: ".*", kept: true, hint: "Routing keys that it may publish with" }),
      textField("read", "Read", { value: ".*", kept: true, hint: "Routing keys that it may bind with" }),
    ],
    action: "Set topic permission",
    send: ({ exchange, write, read, ...where }) =>
      put(["topic-permissions", vhost ?? where.vhost, user ?? where.user], { exchange, write, read }),
    done: () => {
      say("Topic permission set.");
      changed();
    },
  });
}
