/** Time series of statistics, from the samples of the API, which are newest first. */

const RANGES = {
  60: { title: "Minute", age: 60, step: 5 },
  600: { title: "10 minutes", age: 600, step: 5 },
  3600: { title: "Hour", age: 3600, step: 60 },
  28800: { title: "8 hours", age: 28800, step: 600 },
  86400: { title: "Day", age: 86400, step: 1800 },
};

const QUEUE_RANGES = [60, 600, 3600];

/** The ranges that are kept of queues, connections and channels; of the broker as a `whole` all are kept. */
export function ranges(whole) {
  return whole ? RANGES : Object.fromEntries(QUEUE_RANGES.map((age) => [age, RANGES[age]]));
}

/** The query parameters that ask for samples. */
export function samplesOf(range, ...kinds) {
  return Object.fromEntries(
    kinds.flatMap((kind) => [
      [`${kind}_age`, range.age],
      [`${kind}_incr`, range.step],
    ]),
  );
}

/** Points [time, value] of a number, oldest first. */
export function levels(details) {
  return (details?.samples ?? []).map(({ sample, timestamp }) => [timestamp, sample]).reverse();
}

/** Points [time, value per second] of a number that only grows, oldest first. */
export function rates(details) {
  const points = levels(details);
  return points.slice(1).map(([time, value], place) => {
    const [before, earlier] = points[place];
    return [time, Math.max(0, ((value - earlier) * 1000) / (time - before || 1))];
  });
}
