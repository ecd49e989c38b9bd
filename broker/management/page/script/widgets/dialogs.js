/** Dialogs: confirmations and forms. The browser keeps the focus inside, and Escape closes them. */

import { freshId, h } from "../dom/element.js";

/** Open a dialog with a title and contents. Returns a function that closes it. */
export function openDialog(title, body, { narrow = false, onclose = () => {} } = {}) {
  const id = freshId();
  const dialog = h(
    "dialog",
    { class: narrow ? "narrow" : "", "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title)),
    h("div", { class: "body" }, body),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    onclose();
  });
  document.body.append(dialog);
  dialog.showModal();
  return () => dialog.close();
}

/**
 * Ask for a confirmation, then call `run`. `typed` is a text that has to be typed first. Resolves to true after success; an
 * error is shown in the dialog, which stays open.
 */
export function confirmed({ title, text, action, run, typed = "" }) {
  return new Promise((resolve) => {
    let done = false;
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const input = h("input", { type: "text", autocomplete: "off", "aria-label": `Type ${typed} to confirm` });
    const go = h("button", { type: "submit", class: "danger primary", disabled: typed !== "" }, action);
    const cancel = h("button", { type: "button" }, "Cancel");
    input.addEventListener("input", () => (go.disabled = input.value !== typed));
    const form = h(
      "form",
      { class: "form" },
      ...[text].flat().map((line) => h("p", {}, line)),
      typed && h("label", { class: "field" }, h("span", { class: "title" }, `Type “${typed}” to confirm`), input),
      problem,
      h("div", { class: "actions" }, cancel, go),
    );
    const close = openDialog(title, form, { narrow: true, onclose: () => resolve(done) });
    cancel.addEventListener("click", close);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        await run();
        done = true;
        close();
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        go.disabled = false;
      }
    });
    (typed ? input : cancel).focus();
  });
}
