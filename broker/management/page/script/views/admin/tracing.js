/** Live tracing of publishes and deliveries in a virtual host. */

import { send } from "../../api/requests.js";
import { session } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { bytes, clock, number } from "../../dom/format.js";
import { choiceField, textField } from "../../widgets/forms.js";
import { mono, showFigures } from "../../widgets/facts.js";
import { button, cardWith, head } from "../../widgets/page_parts.js";
import { Table } from "../../widgets/tables.js";
import { openDialog } from "../../widgets/dialogs.js";
import { shownMessage } from "../objects/messages.js";

const ROWS_MAX = 200;
const REMARK =
  "Tracing copies each message that is published or delivered, and so slows the broker down. " +
  "Messages beyond the speed of this page are dropped and counted. The list pauses while the pointer is on it.";

const COLUMNS = (look) => [
  { title: "Time", short: true, show: (row) => clock(row.at) },
  { title: "Event", name: true, short: true, show: (row) => (row.kind === "publish" ? "published" : "delivered") },
  { title: "Exchange", show: (row) => row.exchange || "(default)" },
  { title: "Routing key", show: (row) => mono(row.routing_keys.join(", ")) },
  { title: "Queues", show: (row) => (row.kind === "publish" ? row.routed_queues.join(", ") || "none" : row.queue) },
  { title: "User", show: (row) => row.user },
  { title: "Size", number: true, show: (row) => bytes(row.payload_bytes) },
  {
    title: "",
    show: (row) =>
      h(
        "div",
        { class: "actions" },
        button("Show", () => look(row), "plain"),
      ),
  },
];

export function showTracing(page) {
  const vhost = choiceField("vhost", "Virtual host", session.entered(), {
    value: session.vhost || session.entered()[0],
  });
  const pattern = textField("pattern", "Filter", {
    placeholder: "#",
    hint: "publish.EXCHANGE or deliver.QUEUE, with * and #",
  });
  const toggle = button("Start", () => (running ? stop() : start()), "primary");
  const figures = h("dl", { class: "figures", hidden: true });
  const table = new Table(COLUMNS(look), (row) => row.number, { caption: "Traced messages" });
  const nothing = h("p", { class: "empty" }, "No messages traced.");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  table.element.hidden = true;
  let running = null;
  let [rows, seen, dropped] = [[], 0, 0];
  page.show(
    head("Tracing", { lead: "Publishes and deliveries, live." }).element,
    h(
      "div",
      { class: "sections" },
      cardWith(
        "Trace",
        { remark: REMARK },
        h(
          "div",
          { class: "fields" },
          vhost.element,
          pattern.element,
          h("div", { class: "field" }, h("span", { class: "title" }, "\u00a0"), h("div", { class: "actions" }, toggle)),
        ),
        problem,
      ),
      figures,
      h("section", { class: "card flush" }, table.element, nothing),
    ),
  );
  table.element.addEventListener("pointerleave", display);
  page.signal.addEventListener("abort", () => stop());

  async function start() {
    running = new AbortController();
    const { signal } = running;
    [rows, seen, dropped] = [[], 0, 0];
    problem.hidden = true;
    display();
    try {
      const response = await send("POST", ["leveret", "trace", vhost.read()], {
        query: { pattern: pattern.read() },
        signal,
      });
      await readLines(response.body, take);
    } catch (error) {
      if (error.name !== "AbortError") {
        problem.textContent = error.message;
        problem.hidden = false;
      }
    }
    if (!signal.aborted) {
      stop();
    }
  }

  function stop() {
    running?.abort();
    running = null;
    display();
  }

  function take(lines) {
    for (const line of lines.filter((each) => each.key !== undefined)) {
      seen += 1;
      rows.unshift({ ...line, number: seen });
    }
    dropped = lines.at(-1)?.dropped ?? dropped;
    rows.length = Math.min(rows.length, ROWS_MAX);
    display();
  }

  function display() {
    toggle.textContent = running ? "Stop" : "Start";
    toggle.className = running ? "danger" : "primary";
    vhost.input.disabled = pattern.input.disabled = running !== null;
    if (!table.element.matches(":hover, :focus-within")) {
      table.show(rows);
    }
    table.element.hidden = rows.length === 0;
    nothing.hidden = rows.length > 0;
    nothing.textContent = running ? "Waiting for a message…" : "No messages traced.";
    figures.hidden = !running && seen === 0;
    showFigures(figures, [
      ["Seen", number(seen)],
      ["Dropped", number(dropped), dropped > 0],
      ["Shown", seen > ROWS_MAX ? `last ${number(ROWS_MAX)}` : number(seen)],
    ]);
  }

  function look(row) {
    openDialog(
      `${row.kind === "publish" ? "Published" : "Delivered"} ${clock(row.at)}`,
      h(
        "div",
        {},
        shownMessage({ ...row, routing_key: row.routing_keys.join(", ") }, row.number - 1),
        h("p", { class: "small soft" }, `Over ${row.connection}, channel ${row.channel}`),
      ),
    );
  }
}

/** Pass lines of JSON to `take`, parsed, in lists as they arrive, until the end. */
async function readLines(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    take(lines.filter(Boolean).map((line) => JSON.parse(line)));
  }
}
