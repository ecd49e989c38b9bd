/** Numbers, sizes and times as text. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const ONE = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A number; "–" for none. */
export function number(value) {
  return Number.isFinite(value) ? WHOLE.format(value) : "–";
}

/** A large number in short: 1.2M. */
export function compact(value) {
  return Math.abs(value) < 10000 ? trimmed(value) : SHORT.format(value);
}

function trimmed(value) {
  return Math.abs(value) >= 100 || Number.isInteger(value) ? WHOLE.format(value) : String(Number(value.toPrecision(3)));
}

/** Events per second. */
export function rate(value) {
  return Number.isFinite(value) ? `${value !== 0 && value < 100 ? ONE.format(value) : WHOLE.format(value)}/s` : "–";
}

export function bytes(value) {
  if (!Number.isFinite(value)) {
    return "–";
  }
  let [size, unit] = [value, 0];
  while (Math.abs(size) >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? WHOLE.format(size) : ONE.format(size)} ${BYTE_UNITS[unit]}`;
}

export function byteRate(value) {
  return Number.isFinite(value) ? `${bytes(value)}/s` : "–";
}

/** A time span in seconds, in a suitable unit. */
export function seconds(value) {
  if (!Number.isFinite(value)) {
    return "–";
  }
  if (value === 0) {
    return "0 s";
  }
  if (value < 0.001) {
    return `${Number((value * 1e6).toPrecision(3))} µs`;
  }
  return value < 1 ? `${Number((value * 1000).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`;
}

/** A duration in its two largest units. */
export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) {
    return "–";
  }
  const whole = Math.floor(milliseconds / 1000);
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return first < 0
    ? "0 s"
    : parts
        .slice(first, first + 2)
        .map(([count, unit]) => `${count} ${unit}`)
        .join(" ");
}

/** A time in the time zone of the browser: 2026-11-23 08:46:04. */
export function moment(milliseconds) {
  if (!Number.isFinite(milliseconds)) {
    return "–";
  }
  const date = new Date(milliseconds);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(milliseconds)}`;
}

export function clock(milliseconds) {
  const date = new Date(milliseconds);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function two(value) {
  return String(value).padStart(2, "0");
}

/** "1 message", "2 messages". */
export function counted(count, noun, plural = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : plural}`;
}

/** The client's end in the name of a connection or channel: all have the other end in common. */
export function clientEnd(name) {
  return name.replace(/ -> .*?(?= \(\d+\)$|$)/, "");
}

/** The value at a dotted path in an object; undefined if there is none. */
export function inside(value, dotted) {
  return dotted.split(".").reduce((within, key) => within?.[key], value);
}
