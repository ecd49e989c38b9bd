/** The interval of refreshes. There are none while the tab is hidden, or after a page was left. */

const KEY = "leveret.refresh";

/** Pairs of seconds, as text, and their title. */
export const INTERVALS = [
  ["5", "5 seconds"],
  ["30", "30 seconds"],
  ["0", "Never"],
];

export function interval() {
  const kept = localStorage.getItem(KEY);
  return INTERVALS.some(([seconds]) => seconds === kept) ? Number(kept) : 5;
}

export function chooseInterval(seconds) {
  localStorage.setItem(KEY, String(seconds));
  document.dispatchEvent(new Event("leveret:interval"));
}

/**
 * Call `load` now and at each refresh until `signal` aborts. Returns a function that calls it at once; while it runs, it
 * is called once more afterwards. `failed` is called with its error, or with null after success.
 */
export function keepFresh(signal, load, failed) {
  let [timer, running, again] = [0, false, false];

  async function refresh() {
    clearTimeout(timer);
    if (signal.aborted) {
      return;
    }
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await load();
      failed(null);
    } catch (error) {
      if (!signal.aborted && error.name !== "AbortError") {
        failed(error);
      }
    }
    running = false;
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (again) {
      again = false;
      refresh();
    } else if (interval() && !document.hidden && !signal.aborted) {
      timer = setTimeout(refresh, interval() * 1000);
    }
  }

  document.addEventListener("visibilitychange", () => document.hidden || refresh(), { signal });
  document.addEventListener("leveret:interval", plan, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  refresh();
  return refresh;
}
