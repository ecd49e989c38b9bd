/** Limits of virtual hosts and users. */

import { put, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { number } from "../../dom/format.js";
import { link, nameLink } from "../../router.js";
import { confirmed } from "../../widgets/dialogs.js";
import { choiceField, form, numberField, textField } from "../../widgets/forms.js";
import { button, card, head, tabs } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";
import { serverList } from "../../widgets/server_list.js";

export const VHOST_LIMITS = { "max-connections": "Connections", "max-queues": "Queues" };
export const USER_LIMITS = { "max-connections": "Connections", "max-channels": "Channels" };
const HINT = "0: none; -1: no limit.";

/** The limits that are set, each with a button that clears it. */
export function limitLines(limits, value, clear, changed) {
  const set = Object.entries(value ?? {});
  if (!set.length) {
    return h("p", { class: "soft" }, "No limits.");
  }
  const line = ([name, limit]) => {
    const title = limits[name] ?? name;
    const away = () =>
      confirmed({
        title: "Clear this limit?",
        text: `${title}: ${number(limit)}. Without it the number is not limited.`,
        action: "Clear the limit",
        run: async () => {
          await clear(name);
          changed();
        },
      });
    return h(
      "li",
      {},
      h("span", { class: "soft" }, `${title}: `),
      number(limit),
      " ",
      button("Clear…", away, "plain danger"),
    );
  };
  return h("ul", {}, ...set.map(line));
}

export function limitForm(limits, parts, changed) {
  return form({
    fields: [
      choiceField("limit", "Limit", Object.entries(limits)),
      numberField("value", "At most", { required: true, min: -1, hint: HINT }),
    ],
    action: "Set the limit",
    send: ({ limit, value }) => put([...parts, limit], { value }),
    cleared: ["value"],
    done: () => {
      say("Limit set.");
      changed();
    },
  });
}

export function showLimits(page) {
  const users = page.names.kind === "users";
  const [kind, limits, path] = users ? ["user", USER_LIMITS, "user-limits"] : ["vhost", VHOST_LIMITS, "vhost-limits"];
  const changed = () => list.refresh();
  const list = serverList(page, {
    parts: !users && session.vhost ? [path, session.vhost] : [path],
    columns: [
      {
        title: users ? "User" : "Virtual host",
        name: true,
        sort: kind,
        show: (row) => nameLink(row[kind], `${kind}s`, row[kind]),
      },
      {
        title: "Limits",
        needs: ["value"],
        show: (row) => limitLines(limits, row.value, (limit) => remove([path, row[kind], limit]), changed),
      },
    ],
    key: (row) => row[kind],
    noun: users ? "user with limits" : "virtual host with limits",
    nouns: users ? "users with limits" : "virtual hosts with limits",
    filter: users ? "Filter by user" : "Filter by virtual host",
    empty: users ? "No users with limits." : "No virtual hosts with limits.",
  });
  page.show(
    head("Limits").element,
    tabs("Kinds of limits", [
      ["Virtual hosts", link("limits"), !users],
      ["Users", link("limits", "users"), users],
    ]),
    h("div", { class: "sections" }, list.element, card("Set a limit", newLimit(kind, limits, path, changed))),
  );
}

function newLimit(kind, limits, path, changed) {
  const of =
    kind === "user"
      ? textField("of", "User", { required: true })
      : choiceField("of", "Virtual host", session.vhosts, { value: session.vhost || session.vhosts[0] });
  return form({
    fields: [
      of,
      choiceField("limit", "Limit", Object.entries(limits)),
      numberField("value", "At most", { required: true, min: -1, hint: HINT }),
    ],
    action: "Set the limit",
    send: ({ of: name, limit, value }) => put([path, name, limit], { value }),
    cleared: ["value"],
    done: () => {
      say("Limit set.");
      changed();
    },
  });
}
