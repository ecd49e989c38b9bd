/**
 * The commits: how many messages share one, how long confirms wait for it, and what the disk takes.
 *
 * The broker gives histograms since its start. Two of them, some seconds apart, say how it was in between; the charts go
 * back to when this page was opened.
 */

import { get } from "../../api/client.js";
import { h } from "../../dom/element.js";
import { bytes, compact, number, rate, seconds } from "../../dom/format.js";
import { lineChart } from "../../widgets/charts.js";
import { showFigures } from "../../widgets/facts.js";
import { card, cardWith, head } from "../../widgets/frame.js";
import { HistogramChart, between, mean, quantile } from "../../widgets/histograms.js";

const HISTORY_MAX = 360;

const TIMES = [
  { name: "half", title: "Half below" },
  { name: "most", title: "99 % below" },
];

/** What there is a histogram of: its name in the API, its title, how its values are said, a remark. */
const KINDS = [
  [
    "commit_messages",
    "Messages in a commit",
    compact,
    "What comes while the disk syncs is the next commit: they grow with the load.",
  ],
  [
    "confirm_seconds",
    "How long confirms waited",
    seconds,
    "The first publish of each commit, until its confirm was due.",
  ],
  ["sync_seconds", "How long a sync took", seconds, "The end of a commit: then it is on the disk, not before."],
  ["commit_seconds", "How long a commit took", seconds, "Everything that is written, and its sync."],
  ["commit_bytes", "Bytes written by a commit", bytes, "Messages, and what they cost beside their bodies."],
  ["turn_seconds", "Turns of the event loop", seconds, "For how long others wait while one client is served."],
  ["lag_seconds", "Lag of the event loop", seconds, "How late a task is woken that slept for a second."],
];

export function showCommits(page) {
  const top = head("Commits", { lead: "A confirm means that the message is on disk. Here is what that takes." });
  const figures = h("dl", { class: "figures" });
  const waits = lineChart("How long confirms waited", TIMES, seconds);
  const syncs = lineChart("How long syncs took", TIMES, seconds);
  const sizes = lineChart("Messages in a commit", [{ name: "mean", title: "On average" }], compact);
  const often = lineChart("Commits a second", [{ name: "rate", title: "Commits" }], rate, compact);
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
        card("How long confirms waited", waits.element),
        card("How long syncs took", syncs.element),
        card("Messages in a commit", sizes.element),
        card("Commits a second", often.element),
      ),
      h("h2", {}, "Since the broker was started"),
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
    waits.update({ half: points("confirm_seconds", "half"), most: points("confirm_seconds", "most") });
    syncs.update({ half: points("sync_seconds", "half"), most: points("sync_seconds", "most") });
    sizes.update({ mean: points("commit_messages", "mean") });
    often.update({ rate: points("commit_messages", "rate") });
  }
}

/** What happened between two answers. */
function step(earlier, later) {
  const found = { at: later.at };
  for (const [name] of KINDS) {
    const histogram = between(earlier.histograms[name], later.histograms[name]);
    found[name] = {
      half: quantile(histogram, 0.5),
      most: quantile(histogram, 0.99),
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
      "Messages in one",
      latest && Number.isFinite(latest.commit_messages.mean) ? compact(latest.commit_messages.mean) : "–",
    ],
    ["Sync, half below", seconds(latest?.sync_seconds.half ?? NaN)],
    ["Sync, on average so far", seconds(mean(sync))],
    ["Waiting to be written", bytes(now.waiting_bytes)],
    ["Batches in line", number(now.waiting_batches)],
  ];
}
