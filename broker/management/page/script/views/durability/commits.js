/**
 * Commits: messages in each, the waits of confirms, and the times of the disk.
 *
 * The broker keeps the statistics of the past, and histograms since its start.
 */

import { get } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { bytes, compact, number, rate, seconds } from "../../dom/format.js";
import { lineChart, rangeChoice } from "../../widgets/charts.js";
import { showFigures } from "../../widgets/facts.js";
import { card, cardWith, head } from "../../widgets/page_parts.js";
import { HistogramChart, between, mean } from "../../widgets/histograms.js";
import { ranges, samplesOf } from "../../widgets/samples.js";
import { each } from "../overview.js";

const TIMES = [
  { name: "median", title: "Median" },
  { name: "p99", title: "99th percentile" },
];

/** The histograms: name in the API, title, format of values, remark. */
const KINDS = [
  [
    "commit_messages",
    "Messages per commit",
    compact,
    "Messages that arrive during a sync are in the next commit: commits grow with the load.",
  ],
  [
    "confirm_seconds",
    "Wait for confirms",
    seconds,
    "From the first publish of each commit to its confirm.",
  ],
  ["sync_seconds", "Time of a sync", seconds, "The end of a commit, after which its messages are on disk."],
  ["commit_seconds", "Time of a commit", seconds, "The write and its sync."],
  ["commit_bytes", "Bytes per commit", bytes, "Bodies of messages with their overhead."],
  ["turn_seconds", "Turns of the event loop", seconds, "Time for which other clients wait while one is served."],
  ["lag_seconds", "Lag of the event loop", seconds, "Delay with which a task is woken that slept for a second."],
];

export function showCommits(page) {
  const top = head("Commits", { lead: "A confirm means that the message is on disk. These are its costs." });
  const figures = h("dl", { class: "figures" });
  const waits = lineChart("Wait for confirms", TIMES, seconds);
  const syncs = lineChart("Time of syncs", TIMES, seconds);
  const sizes = lineChart("Messages per commit", [{ name: "messages", title: "Average" }], compact);
  const often = lineChart("Commits per second", [{ name: "rate", title: "Commits" }], rate, compact);
  const charts = KINDS.map(([name, title, say]) => [name, new HistogramChart(title, say)]);
  const span = rangeChoice(ranges(true), "leveret.commits.range", () => refresh());
  top.actions(span.element);
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      figures,
      h(
        "div",
        { class: "pair" },
        card("Wait for confirms", waits.element),
        card("Time of syncs", syncs.element),
        card("Messages per commit", sizes.element),
        card("Commits per second", often.element),
      ),
      h("h2", {}, "Since the start of the broker"),
      h(
        "div",
        { class: "pair" },
        ...KINDS.map(([, title, , remark], place) => cardWith(title, { remark }, charts[place][1].element)),
      ),
    ),
  );

  const refresh = page.fresh(async () => {
    const now = await get(["leveret", "commits"], samplesOf(span.range, "node_stats"), page.signal);
    charts.forEach(([name, chart]) => chart.update(between(null, now.histograms[name])));
    const past = (now.history ?? []).toReversed();
    const range = past.length ? [past[0].timestamp, past.at(-1).timestamp] : null;
    waits.update(each(TIMES, (part) => points(past, (interval) => interval.confirm_seconds[part])), range);
    syncs.update(each(TIMES, (part) => points(past, (interval) => interval.sync_seconds[part])), range);
    sizes.update({ messages: points(past, (interval) => interval.messages) }, range);
    often.update({ rate: points(past, (interval) => interval.rate) }, range);
    showFigures(figures, figuresOf(now, past.at(-1)));
  });
}

/** Points of the intervals that have a value: without commits there is none. */
function points(past, value) {
  return past.filter((interval) => value(interval) !== null).map((interval) => [interval.timestamp, value(interval)]);
}

function figuresOf(now, latest) {
  const { commit_messages: messages, sync_seconds: sync } = now.histograms;
  return [
    ["Commits since the start", number(messages.count)],
    ["Commits", rate(latest?.rate ?? NaN)],
    ["Messages per commit", Number.isFinite(latest?.messages) ? compact(latest.messages) : "–"],
    ["Sync, median", seconds(latest?.sync_seconds.median ?? NaN)],
    ["Sync, average since the start", seconds(mean(sync))],
    ["Waiting to be written", bytes(now.waiting_bytes)],
    ["Batches waiting", number(now.waiting_batches)],
  ];
}
