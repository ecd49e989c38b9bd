/**
 * Commits: messages in each, the waits of confirms, and the times of the disk.
 *
 * The API returns histograms since the start of the broker. The charts show differences of two of them, some seconds apart,
 * from the moment at which this page was opened.
 */

import { get } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { bytes, compact, number, rate, seconds } from "../../dom/format.js";
import { lineChart } from "../../widgets/charts.js";
import { showFigures } from "../../widgets/facts.js";
import { card, cardWith, head } from "../../widgets/page_parts.js";
import { HistogramChart, between, mean, quantile } from "../../widgets/histograms.js";

const HISTORY_MAX = 360;

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
  const sizes = lineChart("Messages per commit", [{ name: "mean", title: "Average" }], compact);
  const often = lineChart("Commits per second", [{ name: "rate", title: "Commits" }], rate, compact);
  const charts = KINDS.map(([name, title, say]) => [name, new HistogramChart(title, say)]);
  const history = [];
  let [first, before] = [null, null];
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

  page.fresh(async () => {
    const now = { ...(await get(["leveret", "commits"], {}, page.signal)), at: Date.now() };
    first ??= now;
    charts.forEach(([name, chart]) => chart.update(between(null, now.histograms[name])));
    if (before) {
      history.push(step(before, now));
      history.splice(0, history.length - HISTORY_MAX);
      drawHistory();
    }
    before = now;
    showFigures(figures, figuresOf(now, history.at(-1)));
  });

  function drawHistory() {
    const points = (name, part) =>
      history.filter((each) => Number.isFinite(each[name][part])).map((each) => [each.at, each[name][part]]);
    waits.update({ median: points("confirm_seconds", "median"), p99: points("confirm_seconds", "p99") });
    syncs.update({ median: points("sync_seconds", "median"), p99: points("sync_seconds", "p99") });
    sizes.update({ mean: points("commit_messages", "mean") });
    often.update({ rate: points("commit_messages", "rate") });
  }
}

/** The statistics of the time between two answers. */
function step(earlier, later) {
  const found = { at: later.at };
  for (const [name] of KINDS) {
    const histogram = between(earlier.histograms[name], later.histograms[name]);
    found[name] = {
      median: quantile(histogram, 0.5),
      p99: quantile(histogram, 0.99),
      mean: mean(histogram),
      rate: (histogram.count * 1000) / (later.at - earlier.at),
    };
  }
  return found;
}

function figuresOf(now, latest) {
  const { commit_messages: messages, sync_seconds: sync } = now.histograms;
  return [
    ["Commits since the start", number(messages.count)],
    ["Commits", rate(latest?.commit_messages.rate ?? NaN)],
    [
      "Messages per commit",
      latest && Number.isFinite(latest.commit_messages.mean) ? compact(latest.commit_messages.mean) : "–",
    ],
    ["Sync, median", seconds(latest?.sync_seconds.median ?? NaN)],
    ["Sync, average since the start", seconds(mean(sync))],
    ["Waiting to be written", bytes(now.waiting_bytes)],
    ["Batches waiting", number(now.waiting_batches)],
  ];
}
