/** The page of a virtual host: description, permissions, limits, delete. */

import { get, put, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { number } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { link } from "../../router.js";
import { confirmed } from "../../widgets/dialogs.js";
import { badge, showFigures } from "../../widgets/facts.js";
import { choiceField, form, textField } from "../../widgets/forms.js";
import { button, card, head } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";
import { shortTable } from "../../widgets/tables.js";
import { VHOST_LIMITS, limitForm, limitLines } from "./limits.js";
import { permissionColumns, permissionForm, topicColumns, topicForm } from "./rights.js";
import { QUEUE_TYPES } from "./vhosts.js";

export async function showVhost(page) {
  const { name } = page.names;
  const first = await get(["vhosts", name], {}, page.signal);
  const top = head(name, {
    trail: [["Virtual hosts", link("vhosts")]],
    actions: [button("Delete…", () => deleteVhost(name), "danger")],
  });
  const changed = () => refresh();
  const figures = h("dl", { class: "figures" });
  const permissions = shortTable(permissionColumns("vhost", changed), (row) => row.user, {
    caption: "Permissions",
    empty: "No permissions: no user can enter it.",
  });
  const topics = shortTable(topicColumns("vhost", changed), (row) => `${row.user}\n${row.exchange}`, {
    caption: "Topic permissions",
    empty: "No topic permissions.",
  });
  const limits = h("div");
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      figures,
      h(
        "div",
        { class: "pair" },
        card("Description", descriptionForm(first, changed)),
        card(
          "Limits",
          h("div", { class: "sections" }, limits, limitForm(VHOST_LIMITS, ["vhost-limits", name], changed)),
        ),
      ),
      card("Permissions", permissions.element),
      card("Set permissions", permissionForm({ vhost: name, changed })),
      card("Topic permissions", topics.element),
      card("Set a topic permission", topicForm({ vhost: name, changed })),
    ),
  );

  async function load() {
    const [vhost, may, topic, limited] = await Promise.all([
      get(["vhosts", name], {}, page.signal),
      get(["vhosts", name, "permissions"], {}, page.signal),
      get(["vhosts", name, "topic-permissions"], {}, page.signal),
      get(["vhost-limits", name], {}, page.signal),
    ]);
    top.about(...(vhost.tags ?? []).map((tag) => badge(tag)), vhost.tracing && badge("traced", "warning"));
    showFigures(figures, [
      ["Ready", number(vhost.messages_ready ?? 0)],
      ["Unacked", number(vhost.messages_unacknowledged ?? 0)],
      ["Total", number(vhost.messages ?? 0)],
      ["Users with permissions", number(may.length)],
    ]);
    permissions.show(may);
    topics.show(topic);
    limits.replaceChildren(
      limitLines(VHOST_LIMITS, limited[0]?.value, (limit) => remove(["vhost-limits", name, limit]), changed),
    );
  }

  const refresh = page.fresh(load);
}

function descriptionForm(vhost, changed) {
  const type = QUEUE_TYPES.some(([each]) => each === vhost.default_queue_type) ? vhost.default_queue_type : "";
  return form({
    fields: [
      textField("description", "Description", { value: vhost.description ?? "", kept: true, wide: true }),
      textField("tags", "Tags", { value: (vhost.tags ?? []).join(","), kept: true, hint: "Separated by commas." }),
      choiceField("type", "Default queue type", QUEUE_TYPES, { value: type }),
    ],
    action: "Save",
    send: ({ description, tags, type: chosen }) =>
      put(["vhosts", vhost.name], { description, tags, ...(chosen ? { default_queue_type: chosen } : {}) }),
    done: () => {
      say("Saved.");
      changed();
    },
  });
}

function deleteVhost(name) {
  return confirmed({
    title: "Delete this virtual host?",
    text: [
      `Everything in ${quoted(name)} is deleted: queues with all their messages, exchanges, bindings, permissions, policies.`,
      "Its connections are closed.",
    ],
    action: "Delete the virtual host",
    typed: name,
    run: async () => {
      await remove(["vhosts", name]);
      await session.loadVhosts();
      location.hash = link("vhosts");
    },
  });
}
