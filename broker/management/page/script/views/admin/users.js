/** The list of users, and the form that adds one. */

import { put } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { nameLink } from "../../router.js";
import { argumentLines, badge, badges } from "../../widgets/facts.js";
import { between, choiceField, formDialog, textField } from "../../widgets/forms.js";
import { button, head } from "../../widgets/page_parts.js";
import { serverList } from "../../widgets/server_list.js";

const TAGS = {
  "": "None: AMQP only",
  management: "Management: this page, own objects",
  policymaker: "Policymaker: also policies",
  monitoring: "Monitoring: may see everything",
  administrator: "Administrator: may do everything",
};

const COLUMNS = [
  { title: "Name", name: true, sort: "name", show: (row) => nameLink(row.name, "users", row.name) },
  {
    title: "Tags",
    sort: "tags",
    show: (row) => badges(...row.tags.map((tag) => badge(tag, tag === "administrator" ? "accent" : ""))),
  },
  {
    title: "Log-in",
    needs: ["password_hash"],
    show: (row) => (row.password_hash ? "password" : "no password"),
  },
  { title: "Limits", needs: ["limits"], show: (row) => argumentLines(Array.isArray(row.limits) ? {} : row.limits) },
];

export function showUsers(page) {
  const top = head("Users", { actions: [button("Add a user…", () => addUser(() => list.refresh()), "primary")] });
  const list = serverList(page, {
    parts: ["users"],
    columns: COLUMNS,
    key: (row) => row.name,
    noun: "user",
    empty: "No users.",
  });
  page.show(top.element, list.element);
}

/** Fields for a new password, typed twice. */
export function passwordFields(required) {
  return [
    textField("password", "Password", { type: "password", required }),
    textField("again", "Password again", { type: "password", required }),
  ];
}

/** The new password. Raises Error if the two fields differ. */
export function samePassword({ password, again }) {
  if (password !== again) {
    throw new Error("The two passwords differ.");
  }
  return password;
}

/** Fields for tags: one of RabbitMQ's, and others. Read them with `tagsOf`. */
export function tagFields(tags = []) {
  const known =
    Object.keys(TAGS)
      .reverse()
      .find((tag) => tags.includes(tag)) ?? "";
  const others = tags.filter((tag) => tag !== known);
  return [
    choiceField("tag", "May use this page as", Object.entries(TAGS), { value: known }),
    textField("others", "Other tags", {
      value: others.join(","),
      kept: true,
      hint: "Separated by commas; impersonator may publish with any user-id.",
    }),
  ];
}

export function tagsOf({ tag, others }) {
  return [tag, ...others.split(",").map((each) => each.trim())].filter(Boolean).join(",");
}

function addUser(done) {
  formDialog({
    title: "Add a user",
    action: "Add",
    fields: [
      textField("name", "Name", { required: true, wide: true }),
      ...passwordFields(true),
      ...tagFields(),
      between(
        h(
          "p",
          { class: "field wide small soft" },
          "A new user has no permissions: set them on its page.",
        ),
      ),
    ],
    send: (values) => put(["users", values.name], { password: samePassword(values), tags: tagsOf(values) }),
    said: "User added.",
    done,
  });
}
