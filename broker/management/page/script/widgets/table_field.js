/** A field of a form with rows of name, value and type: arguments, headers, definitions of policies. */

import { h } from "../dom/element.js";

const TYPES = ["Text", "Number", "Boolean", "JSON"];

/**
 * `presets` are pairs of name and type that a click adds; `value` is the initial object. Reading the field returns an
 * object, or raises Error.
 */
export function tableField(name, title, { presets = [], value = {}, hint } = {}) {
  const rows = h("div", { class: "rows" });
  const add = (key = "", content = "", type = "Text") => {
    const row = rowOf(key, content, type);
    rows.append(row);
    return row;
  };
  Object.entries(value).forEach(([key, each]) => add(key, asText(each), typeOf(each)));
  if (!rows.children.length) {
    add();
  }
  const chosen = (key, type) => {
    [...rows.children].filter(isEmpty).forEach((row) => row.remove());
    add(key, type === "Boolean" ? "true" : "", type).children[1].focus();
  };
  const more = h("button", { type: "button", class: "plain", onclick: () => add().firstChild.focus() }, "Add a row");
  const element = h(
    "fieldset",
    { class: "field wide", style: undefined },
    h("legend", { class: "title small" }, title),
    rows,
    h(
      "div",
      { class: "presets" },
      more,
      ...presets.map(([key, type]) =>
        h("button", { type: "button", class: "plain", onclick: () => chosen(key, type) }, key),
      ),
    ),
    hint && h("span", { class: "hint" }, hint),
  );
  return {
    element,
    name,
    input: rows,
    read: () => Object.fromEntries([...rows.children].filter((row) => !isEmpty(row)).map(pair)),
  };
}

function rowOf(key, content, type) {
  const remove = h("button", { type: "button", "aria-label": "Remove this row" }, "✕");
  const row = h(
    "div",
    { class: "row" },
    h("input", { value: key, placeholder: "name", "aria-label": "Name", autocomplete: "off", spellcheck: "false" }),
    h("input", {
      value: content,
      placeholder: "value",
      "aria-label": "Value",
      autocomplete: "off",
      spellcheck: "false",
    }),
    h("select", { "aria-label": "Type", value: type }, ...TYPES.map((each) => h("option", { value: each }, each))),
    remove,
  );
  remove.addEventListener("click", () => row.remove());
  return row;
}

function isEmpty(row) {
  return row.children[0].value === "" && row.children[1].value === "";
}

function pair(row) {
  const [key, content, type] = [...row.children].slice(0, 3).map((each) => each.value);
  return [key, READ[type](content, key)];
}

const READ = {
  Text: (content) => content,
  Number: (content, key) =>
    checked(Number(content), content !== "" && !Number.isNaN(Number(content)), `${key} is no number`),
  Boolean: (content, key) =>
    checked(content === "true", ["true", "false"].includes(content), `${key} is neither true nor false`),
  JSON: (content, key) => {
    try {
      return JSON.parse(content);
    } catch {
      throw new Error(`${key} is not JSON`);
    }
  },
};

function checked(value, right, text) {
  if (!right) {
    throw new Error(text);
  }
  return value;
}

function typeOf(value) {
  return { string: "Text", number: "Number", boolean: "Boolean" }[typeof value] ?? "JSON";
}

function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
