/**
 * Charts of numbers over time: lines in SVG, redrawn with each sample and when the width changes.
 *
 * The legend below has the newest values, or those at the pointer; a click on an entry hides its line. On the keyboard the
 * arrow keys move the pointer.
 */

import { h, show, svg } from "../dom/element.js";
import { clock, moment } from "../dom/format.js";

const HEIGHT = 176;
const LEFT = 52;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 22;
const LINES = 4;
const MINUTES = 590000;
const DAY = 86400000;

/** `series` are {name, title}; `format` converts a value to text, `short` (default: `format`) the values of the grid. */
export function lineChart(title, series, format, short = format) {
  return new LineChart(title, series, format, short);
}

class LineChart {
  constructor(title, series, format, short) {
    this.series = series.map((each, place) => ({ ...each, kind: `series-${place + 1}`, points: [], hidden: false }));
    this.format = format;
    this.short = short;
    this.at = null;
    this.range = null;
    this.picture = svg("svg", { role: "img", "aria-label": title, tabindex: "0", preserveAspectRatio: "none" });
    this.when = h("p", { class: "when" });
    this.legend = h("div", { class: "legend" }, ...this.series.map((each) => this._entry(each)));
    this.element = h("figure", { class: "chart" }, this.picture, this.when, this.legend);
    this._listen();
  }

  _entry(each) {
    each.value = h("span", { class: "value" });
    each.button = h(
      "button",
      { type: "button", "aria-pressed": "true", onclick: () => this._toggle(each) },
      h("span", { class: `swatch ${each.kind}` }),
      h("span", { class: "label" }, each.title),
      each.value,
    );
    return each.button;
  }

  _toggle(each) {
    each.hidden = !each.hidden;
    each.button.setAttribute("aria-pressed", String(!each.hidden));
    this._draw();
  }

  _listen() {
    new ResizeObserver(() => this._draw()).observe(this.picture);
    this.picture.addEventListener("pointermove", (event) => this._point(event.offsetX));
    this.picture.addEventListener("pointerleave", () => this._moveTo(null));
    this.picture.addEventListener("blur", () => this._moveTo(null));
    this.picture.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) {
        event.preventDefault();
        const times = this._times();
        const place = this.at === null ? times.length : times.indexOf(this.at);
        this._moveTo(times[Math.max(0, Math.min(times.length - 1, place + by))] ?? null);
      }
    });
  }

  /** Show points [time, value] for each series, by name; `range` is the time that is shown, without it that of the points. */
  update(points, range = null) {
    this.range = range;
    for (const each of this.series) {
      each.points = points[each.name] ?? [];
    }
    if (!this._times().includes(this.at)) {
      this.at = null;
    }
    this._draw();
  }

  get _shown() {
    return this.series.filter((each) => !each.hidden && each.points.length > 0);
  }

  _times() {
    const longest = this.series.reduce((most, each) => (each.points.length > most.length ? each.points : most), []);
    return longest.map(([time]) => time);
  }

  _point(x) {
    const times = this._times();
    if (times.length) {
      const { from, to, width } = this._span();
      const time = from + ((x - LEFT) / (width - LEFT - RIGHT)) * (to - from);
      this._moveTo(times.reduce((best, each) => (Math.abs(each - time) < Math.abs(best - time) ? each : best)));
    }
  }

  _moveTo(time) {
    this.at = time;
    this._draw();
  }

  _span() {
    const times = this._times();
    const [from, to] = this.range ?? [times[0] ?? 0, times.at(-1) ?? 1];
    return { from, to, width: this.picture.clientWidth || 600 };
  }

  _draw() {
    const { from, to, width } = this._span();
    const top = ceiling(Math.max(0, ...this._shown.flatMap((each) => each.points.map(([, value]) => value))));
    const x = (time) => LEFT + ((time - from) / (to - from || 1)) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    show(
      this.picture,
      ...this._grid(top, y, width),
      ...this._moments(from, to, x),
      ...this._lines(x, y),
      ...this._cursor(x, y),
    );
    this._values();
  }

  _grid(top, y, width) {
    return Array.from({ length: LINES + 1 }, (_, place) => (top * place) / LINES).flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: Math.round(y(value)), y2: Math.round(y(value)) }),
      svg("text", { class: "tick-text", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, this.short(value)),
    ]);
  }

  _moments(from, to, x) {
    if (!this._times().length) {
      return [];
    }
    const say = (time) =>
      to - from >= DAY / 2 ? moment(time).slice(5, 16) : to - from >= MINUTES ? clock(time).slice(0, 5) : clock(time);
    return [
      [from, "start"],
      [(from + to) / 2, "middle"],
      [to, "end"],
    ].map(([time, anchor]) =>
      svg("text", { class: "tick-text", x: x(time), y: HEIGHT - 6, "text-anchor": anchor }, say(time)),
    );
  }

  _lines(x, y) {
    const alone = this.series.length === 1;
    return this._shown.toReversed().flatMap((each) => {
      const line = each.points.map(([time, value]) => `${round(x(time))},${round(y(value))}`).join(" ");
      const ends = [x(each.points.at(-1)[0]), x(each.points[0][0])].map((end) => `${round(end)},${y(0)}`).join(" ");
      return [
        alone && svg("polygon", { class: `area ${each.kind}`, points: `${line} ${ends}` }),
        svg("polyline", { class: `line ${each.kind}`, points: line }),
      ];
    });
  }

  _cursor(x, y) {
    if (this.at === null) {
      return [];
    }
    const dots = this._shown.map((each) => [each, at(each, this.at)]).filter(([, value]) => value !== undefined);
    return [
      svg("line", { class: "cursor", x1: x(this.at), x2: x(this.at), y1: TOP, y2: HEIGHT - BOTTOM }),
      ...dots.map(([each, value]) =>
        svg("circle", { class: `dot ${each.kind}`, cx: x(this.at), cy: y(value), r: 3.5 }),
      ),
    ];
  }

  _values() {
    const time = this.at ?? this._times().at(-1);
    this.when.textContent = this.at === null ? "" : moment(this.at);
    for (const each of this.series) {
      const value = at(each, time);
      each.value.textContent = value === undefined ? "–" : this.format(value);
    }
  }
}

function at(each, time) {
  return each.points.find(([moment]) => moment === time)?.[1];
}

function round(value) {
  return Math.round(value * 10) / 10;
}

/** The top of the chart: at or above the highest value, with round numbers at the lines of the grid. */
function ceiling(highest) {
  if (highest <= 0) {
    return LINES;
  }
  const step = highest / LINES;
  const unit = 10 ** Math.floor(Math.log10(step));
  const steps = unit === 1 ? [1, 2, 3, 4, 5, 8, 10] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]; // small numbers are counts
  return LINES * unit * steps.find((each) => step <= each * unit * 1.0000001);
}

/** Buttons that choose a time span; `chosen` is called with its entry in `ranges`. */
export function rangeChoice(all, key, chosen) {
  const kept = sessionStorage.getItem(key);
  let current = kept in all ? kept : Object.keys(all)[1];
  const select = h(
    "select",
    { "aria-label": "Time span", value: current },
    ...Object.entries(all).map(([age, each]) => h("option", { value: age }, each.title)),
  );
  select.value = current;
  select.addEventListener("change", () => {
    current = select.value;
    sessionStorage.setItem(key, current);
    chosen();
  });
  return {
    element: select,
    get range() {
      return all[current];
    },
  };
}
