/** Policies and operator policies: list, set, delete. */

import { put, remove } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { number } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { link } from "../../router.js";
import { confirmed } from "../../widgets/dialogs.js";
import { argumentLines, mono } from "../../widgets/facts.js";
import { choiceField, formDialog, numberField, textField } from "../../widgets/forms.js";
import { button, head, tabs } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";
import { tableField } from "../../widgets/table_field.js";

const LEADS = {
  policies:
    "A policy sets arguments of all queues and exchanges whose names match. Of several the one with the highest priority applies.",
  "operator-policies": "An operator policy applies in addition to the policy of users: of two limits the lower one applies.",
};

const PRESETS = [
  ["message-ttl", "Number"],
  ["expires", "Number"],
  ["max-length", "Number"],
  ["max-length-bytes", "Number"],
  ["overflow", "Text"],
  ["dead-letter-exchange", "Text"],
  ["dead-letter-routing-key", "Text"],
  ["delivery-limit", "Number"],
  ["max-age", "Text"],
  ["alternate-exchange", "Text"],
];
const OPERATOR_PRESETS = PRESETS.filter(([name]) =>
  /^(message-ttl|expires|max-length|max-length-bytes|delivery-limit)$/.test(name),
);

const APPLY_TO = [
  ["all", "Queues and exchanges"],
  ["queues", "Queues"],
  ["exchanges", "Exchanges"],
  ["classic_queues", "Classic queues"],
  ["quorum_queues", "Quorum queues"],
  ["streams", "Streams"],
];

export function showPolicies(page) {
  const kind = page.names.kind === "operator" ? "operator-policies" : "policies";
  const operator = kind === "operator-policies";
  const may = operator ? session.administrates : session.setsPolicies;
  const vhosts = session.entered();
  const changed = () => list.refresh();
  const top = head(operator ? "Operator policies" : "Policies", {
    lead: LEADS[kind],
    actions: may && vhosts.length ? [button("Add a policy…", () => edit(kind, vhosts, null, changed), "primary")] : [],
  });
  const list = serverList(page, {
    parts: session.vhost ? [kind, session.vhost] : [kind],
    columns: columns(kind, may, vhosts, changed),
    key: (row) => `${row.vhost}\n${row.name}`,
    noun: operator ? "operator policy" : "policy",
    nouns: operator ? "operator policies" : "policies",
    empty: "No policies.",
  });
  page.show(
    top.element,
    tabs("Kinds of policies", [
      ["Policies", link("policies"), !operator],
      ["Operator policies", link("policies", "operator"), operator],
    ]),
    list.element,
  );
}

function columns(kind, may, vhosts, changed) {
  const actions = (row) =>
    may &&
    session.enters(row.vhost) &&
    h(
      "div",
      { class: "actions" },
      button("Edit…", () => edit(kind, vhosts, row, changed), "plain"),
      button("Delete…", () => clear(kind, row, changed), "plain danger"),
    );
  return [
    { title: "Name", name: true, sort: "name", show: (row) => row.name },
    { title: "Virtual host", sort: "vhost", show: (row) => row.vhost },
    { title: "Pattern", sort: "pattern", show: (row) => mono(row.pattern) },
    {
      title: "Applies to",
      sort: "apply-to",
      show: (row) => Object.fromEntries(APPLY_TO)[row["apply-to"]] ?? row["apply-to"],
    },
    { title: "Definition", needs: ["definition"], show: (row) => argumentLines(row.definition) },
    { title: "Priority", number: true, sort: "priority", show: (row) => number(row.priority) },
    { title: "", show: actions },
  ];
}

function edit(kind, vhosts, policy, changed) {
  const operator = kind === "operator-policies";
  const at = policy?.vhost ?? (session.vhost || vhosts[0]);
  formDialog({
    title: policy ? `Policy ${policy.name}` : "Add a policy",
    action: policy ? "Save" : "Add",
    fields: [
      ...(policy
        ? []
        : [textField("name", "Name", { required: true }), choiceField("vhost", "Virtual host", vhosts, { value: at })]),
      textField("pattern", "Names match", {
        value: policy?.pattern ?? "",
        required: true,
        kept: true,
        placeholder: "^orders\\.",
      }),
      choiceField("apply", "Applies to", operator ? APPLY_TO.filter(([each]) => each !== "exchanges") : APPLY_TO, {
        value: policy?.["apply-to"] ?? "queues",
      }),
      numberField("priority", "Priority", { value: policy?.priority ?? 0 }),
      tableField("definition", "Definition", {
        presets: operator ? OPERATOR_PRESETS : PRESETS,
        value: policy?.definition ?? {},
      }),
    ],
    send: ({ name, vhost, pattern, apply, priority, definition }) =>
      put([kind, policy?.vhost ?? vhost, policy?.name ?? name], {
        pattern,
        "apply-to": apply,
        priority: priority ?? 0,
        definition,
      }),
    said: "Policy set.",
    done: changed,
  });
}

function clear(kind, row, changed) {
  return confirmed({
    title: "Delete this policy?",
    text: `Queues and exchanges that ${quoted(row.name)} applies to keep the arguments of their declaration, and those of the next matching policy.`,
    action: "Delete the policy",
    run: async () => {
      await remove([kind, row.vhost, row.name]);
      changed();
    },
  });
}
