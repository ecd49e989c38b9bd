/** The lists of permissions and of topic permissions, of all users in all virtual hosts. */

import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { link } from "../../router.js";
import { card, head, tabs } from "../../widgets/frame.js";
import { serverList } from "../../widgets/server_list.js";
import { permissionColumns, permissionForm, topicColumns, topicForm } from "./rights.js";

const LEAD = "Regular expressions of names. A user without permissions in a virtual host cannot enter it.";
const TOPIC_LEAD = "Routing keys of a topic exchange that a user may publish or bind with. Without one, all of them.";

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
    empty: topic ? "No user is limited to routing keys." : "Nobody has permissions.",
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
