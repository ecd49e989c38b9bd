/**
 * Notices in the corner: the last one is shown for some seconds. Errors stay until they are closed, or another page is
 * opened.
 */

import { h } from "../dom/element.js";

const SECONDS = 5;
const corner = h("div", { class: "notices" });
addEventListener("hashchange", () => corner.querySelectorAll(".bad").forEach((error) => error.remove()));

function notice(text, bad) {
  const close = h("button", { class: "plain", type: "button", "aria-label": "Close" }, "✕");
  const element = h(
    "div",
    { class: bad ? "notice bad" : "notice", role: bad ? "alert" : "status" },
    h("p", {}, text),
    close,
  );
  close.addEventListener("click", () => element.remove());
  document.body.append(corner);
  corner.append(element);
  return element;
}

export function say(text) {
  corner.querySelectorAll(".notice:not(.bad)").forEach((earlier) => earlier.remove());
  const element = notice(text, false);
  setTimeout(() => element.remove(), SECONDS * 1000);
}

export function complain(error) {
  console.info(`refused: ${error.message}`);
  notice(error.message, true);
}

/** Call a function that the broker may refuse, and show its success or error. True after success. */
export async function attempt(action, done) {
  try {
    const result = await action();
    if (done) {
      say(typeof done === "function" ? done(result) : done);
    }
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}
