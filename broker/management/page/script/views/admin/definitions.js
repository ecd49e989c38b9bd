/** Definitions: everything but messages, as a file; down and up. */

import { post } from "../../api/client.js";
import { session } from "../../api/session.js";
import { download } from "../../dom/download.js";
import { h } from "../../dom/element.js";
import { counted } from "../../dom/format.js";
import { choiceField, form } from "../../widgets/forms.js";
import { confirmed } from "../../widgets/dialogs.js";
import { cardWith, head } from "../../widgets/frame.js";
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

/** The path of a scope: a virtual host has a slash before it, so that one without a name is none. */
function partsOf(scope) {
  return scope ? ["definitions", scope.slice(1)] : ["definitions"];
}

function downCard() {
  const element = form({
    fields: [choiceField("scope", "Of", scopes())],
    action: "Download",
    send: ({ scope }) => download(partsOf(scope), `leveret-${new Date().toISOString().slice(0, 10)}.json`),
  });
  return cardWith("Download", { remark: "It has the hashes of all passwords: keep it as you keep them." }, element);
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
          "What is there already stays, unless the file says otherwise of it; users get the file's passwords.",
        ],
        action: "Upload",
        run: () => post(partsOf(scope), definitions),
      });
    },
    done: async (done) => {
      if (done) {
        say("The definitions are in force, and on disk.");
        file.value = "";
        await session.loadVhosts();
      }
    },
  });
  return cardWith("Upload", { remark: "From this broker or from a RabbitMQ." }, element);
}

function contents(definitions) {
  const found = Object.entries(KINDS).filter(([kind]) => definitions[kind]?.length);
  return found.length
    ? `The file has ${found.map(([kind, noun]) => counted(definitions[kind].length, noun, PLURALS[kind])).join(", ")}.`
    : "The file has none of what this broker knows.";
}
