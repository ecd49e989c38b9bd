/** Definitions: download and upload. */

import { post } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { download } from "../../dom/download.js";
import { h } from "../../dom/element.js";
import { counted } from "../../dom/format.js";
import { choiceField, form } from "../../widgets/forms.js";
import { confirmed } from "../../widgets/dialogs.js";
import { cardWith, head } from "../../widgets/page_parts.js";
import { say } from "../../widgets/notices.js";

const KINDS = {
  vhosts: "virtual host",
  users: "user",
  permissions: "permission",
  policies: "policy",
  queues: "queue",
  exchanges: "exchange",
  bindings: "binding",
};
const PLURALS = { policies: "policies" };

export function showDefinitions(page) {
  const top = head("Definitions", {
    lead: "Users, virtual hosts, permissions, policies, queues, exchanges and bindings as one JSON file, in RabbitMQ's format. Messages are not in it.",
  });
  page.show(top.element, h("div", { class: "pair" }, downCard(), upCard()));
}

function scopes() {
  return [["", "The whole broker"], ...session.vhosts.map((name) => [`/${name}`, `Virtual host ${name}`])];
}

/** The path of a scope: "" for the broker, or the name of a virtual host after a slash, as that name may be empty. */
function partsOf(scope) {
  return scope ? ["definitions", scope.slice(1)] : ["definitions"];
}

function downCard() {
  const element = form({
    fields: [choiceField("scope", "From", scopes())],
    action: "Download",
    send: ({ scope }) => download(partsOf(scope), `leveret-${new Date().toISOString().slice(0, 10)}.json`),
  });
  return cardWith("Download", { remark: "The file contains the hashes of all passwords: protect it like passwords." }, element);
}

function upCard() {
  const file = h("input", { type: "file", accept: ".json,application/json", required: true, "aria-label": "File" });
  const field = {
    element: h("div", { class: "field" }, h("span", { class: "title" }, "File"), file),
    name: "file",
    input: file,
    read: () => file.files[0],
  };
  const element = form({
    fields: [choiceField("scope", "Into", scopes()), field],
    action: "Upload…",
    send: async ({ scope, file: chosen }) => {
      const definitions = JSON.parse(await chosen.text());
      return confirmed({
        title: "Upload these definitions?",
        text: [
          contents(definitions),
          "Queues, exchanges and bindings that exist stay. Users, permissions, policies, limits and parameters of the same name are replaced, passwords included.",
        ],
        action: "Upload",
        run: () => post(partsOf(scope), definitions),
      });
    },
    done: async (done) => {
      if (done) {
        say("Definitions imported.");
        file.value = "";
        await session.loadVhosts();
      }
    },
  });
  return cardWith("Upload", { remark: "A file of Leveret or RabbitMQ." }, element);
}

function contents(definitions) {
  const found = Object.entries(KINDS).filter(([kind]) => definitions[kind]?.length);
  return found.length
    ? `The file has ${found.map(([kind, noun]) => counted(definitions[kind].length, noun, PLURALS[kind])).join(", ")}.`
    : "The file has no definitions that this broker knows.";
}
