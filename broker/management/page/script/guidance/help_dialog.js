/** The help of a page: a dialog with the terms on it. */

import { h } from "../dom/element.js";
import { button } from "../widgets/page_parts.js";
import { openDialog } from "../widgets/dialogs.js";

/** Open the dialog. `entries` are pairs of a term and its meaning. */
export function showHelp(title, entries) {
  const close = openDialog(
    `Help: ${title}`,
    h(
      "div",
      {},
      h("dl", { class: "facts help" }, ...entries.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])),
      h("div", { class: "actions" }, button("Close", () => close(), "primary")),
    ),
  );
}
