/** The list of virtual hosts, and the form that adds one. */

import { put } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { byteRate, number } from "../../dom/format.js";
import { nameLink } from "../../router.js";
import { badge, badges } from "../../widgets/facts.js";
import { choiceField, formDialog, textField } from "../../widgets/forms.js";
import { button, head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";

const COLUMNS = [
  {
    title: "Name",
    name: true,
    sort: "name",
    show: (row) => (session.administrates ? nameLink(row.name, "vhosts", row.name) : row.name),
  },
  { title: "Description", sort: "description", show: (row) => row.description },
  {
    title: "Tags",
    needs: ["tags", "tracing"],
    show: (row) => badges(...(row.tags ?? []).map((tag) => badge(tag)), row.tracing && badge("traced", "warning")),
  },
  { title: "Ready", number: true, sort: "messages_ready", sum: number, show: (row) => number(row.messages_ready ?? 0) },
  {
    title: "Unacked",
    number: true,
    sort: "messages_unacknowledged",
    sum: number,
    show: (row) => number(row.messages_unacknowledged ?? 0),
  },
  { title: "Total", number: true, sort: "messages", sum: number, show: (row) => number(row.messages ?? 0) },
  {
    title: "From clients",
    number: true,
    sort: "recv_oct_details.rate",
    sum: byteRate,
    show: (row) => byteRate(row.recv_oct_details?.rate),
  },
  {
    title: "To clients",
    number: true,
    sort: "send_oct_details.rate",
    sum: byteRate,
    show: (row) => byteRate(row.send_oct_details?.rate),
  },
];

export const QUEUE_TYPES = [
  ["", "Classic"],
  ["quorum", "Quorum"],
  ["stream", "Stream"],
];

export function showVhosts(page) {
  const top = head("Virtual hosts", {
    actions: session.administrates
      ? [button("Add a virtual host…", () => addVhost(() => list.refresh()), "primary")]
      : [],
  });
  const list = serverList(page, {
    parts: ["vhosts"],
    columns: COLUMNS,
    key: (row) => row.name,
    noun: "virtual host",
    empty: "No virtual hosts that you may enter.",
  });
  page.show(top.element, list.element);
}

function addVhost(done) {
  formDialog({
    title: "Add a virtual host",
    action: "Add",
    fields: [
      textField("name", "Name", { required: true, hint: "You get all permissions in it." }),
      textField("description", "Description", { kept: true }),
      textField("tags", "Tags", { kept: true, hint: "Separated by commas." }),
      choiceField("type", "Default queue type", QUEUE_TYPES),
    ],
    send: ({ name, description, tags, type }) =>
      put(["vhosts", name], { description, tags, ...(type ? { default_queue_type: type } : {}) }),
    said: "Virtual host added.",
    done: async () => {
      await session.loadVhosts();
      done();
    },
  });
}
