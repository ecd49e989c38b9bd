/** Forms: fields with labels, and the errors of the broker. */

import { freshId, h } from "../dom/element.js";
import { markedText } from "../dom/visible.js";
import { openDialog } from "./dialogs.js";
import { say } from "./notices.js";

/** A field: `{element, name, read}`. `read` returns its value, undefined for an empty field that is not sent. */
function labelled(name, title, input, { hint, wide } = {}) {
  const id = freshId();
  input.id = id;
  const described = hint ? `${id}-hint` : undefined;
  if (described) {
    input.setAttribute("aria-describedby", described);
  }
  const element = h(
    "div",
    { class: wide ? "field wide" : "field" },
    h("label", { class: "title", for: id }, title),
    input,
    hint && h("span", { class: "hint", id: described }, hint),
  );
  return { element, name, input };
}

export function textField(name, title, { value = "", required = false, type = "text", placeholder, ...rest } = {}) {
  const autocomplete = type === "password" ? "new-password" : "off";
  const input = h("input", {
    name,
    type,
    value,
    required,
    placeholder,
    autocomplete,
    spellcheck: "false",
    autocapitalize: "none",
  });
  return {
    ...labelled(name, title, input, rest),
    read: () => (input.value === "" && !rest.kept ? undefined : input.value),
  };
}

export function numberField(name, title, { value = "", required = false, min, max, placeholder, ...rest } = {}) {
  const input = h("input", { name, type: "number", value, required, min, max, placeholder, inputmode: "numeric" });
  return { ...labelled(name, title, input, rest), read: () => (input.value === "" ? undefined : Number(input.value)) };
}

/** `options` are texts, or pairs of value and text. */
export function choiceField(name, title, options, { value, ...rest } = {}) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, markedText(option)]));
  const input = h("select", { name }, ...pairs.map(([each, text]) => h("option", { value: each }, text)));
  input.value = value ?? pairs[0]?.[0] ?? "";
  return { ...labelled(name, title, input, rest), read: () => input.value };
}

export function areaField(name, title, { value = "", rows = 6, ...rest } = {}) {
  const input = h("textarea", { name, rows, spellcheck: "false", value });
  return { ...labelled(name, title, input, { wide: true, ...rest }), read: () => input.value };
}

/** An element between fields. */
export function between(element) {
  return { element, name: "", read: () => undefined };
}

/**
 * A form. `send` is called with the values by name; its error is shown. After success the fields `cleared` are emptied.
 */
export function form({ fields, action, send, done, danger = false, cancel, cleared = [] }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: danger ? "danger primary" : "primary" }, action);
  const element = h(
    "form",
    { class: "form" },
    h("div", { class: "fields" }, ...fields.map((field) => field.element)),
    problem,
    h("div", { class: "actions" }, cancel, button),
  );
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      const values = {};
      for (const field of fields.filter((each) => each.name)) {
        values[field.name] = field.read();
      }
      const result = await send(values);
      fields.filter((field) => cleared.includes(field.name)).forEach((field) => (field.input.value = ""));
      done?.(result);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      problem.scrollIntoView({ block: "nearest" });
    }
    button.disabled = false;
  });
  return element;
}

/** A form in a dialog, which closes after success. */
export function formDialog({ title, done, said, narrow, ...rest }) {
  const cancel = h("button", { type: "button", onclick: () => close() }, "Cancel");
  const close = openDialog(
    title,
    form({
      ...rest,
      cancel,
      done: (result) => {
        close();
        if (said) {
          say(typeof said === "function" ? said(result) : said);
        }
        done?.(result);
      },
    }),
    { narrow },
  );
}
