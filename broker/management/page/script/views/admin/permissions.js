/** The lists of permissions and of topic permissions. */

import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { link } from "../../router.js";
import { card, head, tabs } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";
import { permissionColumns, permissionForm, topicColumns, topicForm } from "./rights.js";

const LEAD = "Regular expressions that match names of queues and exchanges. A user without permissions in a virtual host cannot enter it.";
const TOPIC_LEAD = "Regular expressions that match the routing keys with which a user may publish to a topic exchange, or bind. Without a topic permission all are allowed.";

export function showPermissions(page) {
  const topic = page.names.kind === "topic";
  const changed = () => list.refresh();
  const top = head(topic ? "Topic permissions" : "Permissions", { lead: topic ? TOPIC_LEAD : LEAD });
  const list = serverList(page, {
    parts: [...(session.vhost ? ["vhosts", session.vhost] : []), topic ? "topic-permissions" : "permissions"],
    columns: topic ? topicColumns("", changed) : permissionColumns("", changed),
    key: (row) => [row.vhost, row.user, row.exchange].join("\n"),
    noun: topic ? "topic permission" : "permission",
    filter: "Filter by user",
    empty: topic ? "No topic permissions." : "No permissions.",
  });
  page.show(
    top.element,
    tabs("Kinds of permissions", [
      ["Permissions", link("permissions"), !topic],
      ["Topic permissions", link("permissions", "topic"), topic],
    ]),
    h(
      "div",
      { class: "sections" },
      list.element,
      card(topic ? "Set a topic permission" : "Set permissions", (topic ? topicForm : permissionForm)({ changed })),
    ),
  );
}
