/** Facts about one thing: names with values, numbers in a row, states, tables of arguments. */

import { h, show } from "../dom/element.js";
import { named } from "../dom/visible.js";

const NOTHING = [undefined, null, "", false];

/** Fill a list of facts: pairs of a name and a value, or null to leave one out. */
export function showFacts(list, pairs) {
  const kept = pairs.filter((pair) => pair && !NOTHING.includes(pair[1]));
  show(list, ...kept.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, ...[value].flat().map(shown))]));
}

function shown(value) {
  return typeof value === "string" ? named(value) : value;
}

export function facts(pairs) {
  const list = h("dl", { class: "facts" });
  showFacts(list, pairs);
  return list;
}

/** Numbers in a row: triples of a name, a value, and true if it is bad. */
export function showFigures(list, figures) {
  show(
    list,
    ...figures
      .filter(Boolean)
      .map(([name, value, bad]) =>
        h("div", { class: bad ? "bad" : "" }, h("dt", {}, name), h("dd", {}, ...[value].flat())),
      ),
  );
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}`.trim() }, ...named(text));
}

/** Labels side by side; "" for none. */
export function badges(...items) {
  const shown = items.filter(Boolean);
  return shown.length ? h("span", { class: "badges" }, ...shown) : "";
}

/** A key, pattern or other text in which each character counts. */
export function mono(text) {
  return h("span", { class: "mono" }, ...named(text));
}

const STATES = {
  running: "good",
  idle: "",
  up: "good",
  flow: "warning",
  blocking: "warning",
  blocked: "bad",
  closing: "warning",
  down: "bad",
  stopped: "bad",
};

export function state(name) {
  return name ? badge(name, STATES[name] ?? "") : "";
}

/** The state of a thing that has `idle_since` while it is not in use: RabbitMQ's page calls it idle then. */
export function stateOf(row) {
  return state(row.state === "running" && row.idle_since ? "idle" : row.state);
}

/** Names with values of any kind, one on each line; "" for none. */
export function argumentLines(table) {
  const entries = Object.entries(table ?? {});
  return entries.length
    ? h(
        "ul",
        {},
        ...entries.map(([name, value]) => h("li", {}, h("span", { class: "soft" }, `${name}: `), ...named(plain(value)))),
      )
    : "";
}

export function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
