/** The page of a user: permissions, tags, password, limits, delete. */

import { get, put, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { quoted } from "../../dom/visible.js";
import { link } from "../../router.js";
import { confirmed } from "../../widgets/dialogs.js";
import { badge } from "../../widgets/facts.js";
import { form } from "../../widgets/forms.js";
import { button, card, head } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";
import { shortTable } from "../../widgets/tables.js";
import { USER_LIMITS, limitForm, limitLines } from "./limits.js";
import { permissionColumns, permissionForm, topicColumns, topicForm } from "./rights.js";
import { passwordFields, samePassword, tagFields, tagsOf } from "./users.js";

export async function showUser(page) {
  const { name } = page.names;
  const first = await get(["users", name], {}, page.signal);
  const changed = () => refresh();
  const top = head(name, {
    trail: [["Users", link("users")]],
    actions: [name !== session.name && button("Delete…", () => deleteUser(name), "danger")].filter(Boolean),
  });
  const permissions = shortTable(permissionColumns("user", changed), (row) => row.vhost, {
    caption: "Permissions",
    empty: "No permissions: the user cannot enter any virtual host.",
  });
  const topics = shortTable(topicColumns("user", changed), (row) => `${row.vhost}\n${row.exchange}`, {
    caption: "Topic permissions",
    empty: "No topic permissions.",
  });
  const limits = h("div");
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      card("Permissions", permissions.element),
      card("Set permissions", permissionForm({ user: name, changed })),
      card("Topic permissions", topics.element),
      card("Set a topic permission", topicForm({ user: name, changed })),
      h("div", { class: "pair" }, card("Tags", tagForm(first, changed)), card("Password", passwordForm(name))),
      card("Limits", h("div", { class: "sections" }, limits, limitForm(USER_LIMITS, ["user-limits", name], changed))),
    ),
  );

  async function load() {
    const [user, may, topic] = await Promise.all([
      get(["users", name], {}, page.signal),
      get(["users", name, "permissions"], {}, page.signal),
      get(["users", name, "topic-permissions"], {}, page.signal),
    ]);
    top.about(
      ...user.tags.map((tag) => badge(tag, tag === "administrator" ? "accent" : "")),
      !user.password_hash && badge("no password", "warning"),
    );
    permissions.show(may);
    topics.show(topic);
    const value = Array.isArray(user.limits) ? {} : user.limits;
    limits.replaceChildren(limitLines(USER_LIMITS, value, (limit) => remove(["user-limits", name, limit]), changed));
  }

  const refresh = page.fresh(load);
}

/** The form of the tags; other properties of the user are kept. */
function tagForm(user, changed) {
  return form({
    fields: tagFields(user.tags),
    action: "Save the tags",
    send: async (values) => {
      const now = await get(["users", user.name]);
      return put(["users", user.name], {
        password_hash: now.password_hash,
        hashing_algorithm: now.hashing_algorithm,
        tags: tagsOf(values),
      });
    },
    done: () => {
      say("Tags set. They apply from the next request on.");
      changed();
    },
  });
}

function passwordForm(name) {
  return form({
    fields: passwordFields(true),
    action: "Change the password",
    send: async (values) => {
      const now = await get(["users", name]);
      return put(["users", name], { password: samePassword(values), tags: now.tags.join(",") });
    },
    cleared: ["password", "again"],
    done: () => say("Password changed. Open connections stay."),
  });
}

function deleteUser(name) {
  return confirmed({
    title: "Delete this user?",
    text: `The user ${quoted(name)} is deleted with its permissions, and its connections are closed.`,
    action: "Delete the user",
    run: async () => {
      await remove(["users", name]);
      location.hash = link("users");
    },
  });
}
