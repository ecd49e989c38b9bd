/** Histograms of cumulative buckets `[upper bound, count]`, and statistics of the time between two of them. */

import { h, show, svg } from "../dom/element.js";
import { number } from "../dom/format.js";

const HEIGHT = 150;
const BOTTOM = 22;
const TOP = 8;
const BARS_MIN = 6;
const LABEL_WIDTH = 64;

/** The difference of two histograms: {count, sum, buckets: [[bound, count of this bucket alone]]}. */
export function between(earlier, later) {
  const before = new Map((earlier?.buckets ?? []).map(([bound, count]) => [String(bound), count]));
  let below = 0;
  const buckets = later.buckets.map(([bound, count]) => {
    const grown = count - (before.get(String(bound)) ?? 0);
    const own = Math.max(0, grown - below);
    below = grown;
    return [bound, own];
  });
  return { count: later.count - (earlier?.count ?? 0), sum: later.sum - (earlier?.sum ?? 0), buckets };
}

export function mean({ count, sum }) {
  return count > 0 ? sum / count : NaN;
}

/** A bar chart of the buckets from the first to the last that is not empty. `say` converts a bound to text. */
export class HistogramChart {
  constructor(title, say) {
    this.say = say;
    this.shown = { count: 0, buckets: [] };
    this.picture = svg("svg", { role: "img", "aria-label": title });
    this.element = h("figure", { class: "chart histogram" }, this.picture);
    new ResizeObserver(() => this._draw()).observe(this.picture);
  }

  update(histogram) {
    this.shown = histogram;
    this._draw();
  }

  _draw() {
    const width = this.picture.clientWidth || 600;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const { buckets } = this.shown;
    const first = buckets.findIndex(([, own]) => own > 0);
    if (first < 0) {
      show(
        this.picture,
        svg("text", { class: "tick-text", x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "Nothing yet"),
      );
      return;
    }
    const bars = buckets.slice(first, buckets.findLastIndex(([, own]) => own > 0) + 1);
    const most = Math.max(...bars.map(([, own]) => own));
    const step = width / Math.max(bars.length, BARS_MIN);
    const named = Math.ceil(LABEL_WIDTH / step);
    show(
      this.picture,
      svg("line", { class: "grid", x1: 0, x2: width, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      ...bars.flatMap((bar, place) => this._bar(bar, place * step, step, most, place % named === 0)),
    );
  }

  _bar([bound, own], left, step, most, named) {
    const height = (own / most) * (HEIGHT - BOTTOM - TOP);
    const label = bound === null ? "more" : `≤ ${this.say(bound)}`;
    return [
      svg(
        "rect",
        { class: "bar", x: left + step * 0.12, width: step * 0.76, y: HEIGHT - BOTTOM - height, height, rx: 2 },
        svg("title", {}, `${label}: ${number(own)}`),
      ),
      named && svg("text", { class: "tick-text", x: left + step / 2, y: HEIGHT - 7, "text-anchor": "middle" }, label),
    ];
  }
}
