/** The line at the top of each page: the time of its last refresh, a refresh at once, and help. */

import { h } from "../dom/element.js";
import { clock } from "../dom/format.js";
import { HELP } from "./help_texts.js";
import { showHelp } from "./help_dialog.js";
import { button } from "../widgets/page_parts.js";

export class PageLine {
  /** `first` is the first part of the address of the page. */
  constructor(first) {
    const entries = HELP[first];
    this.time = h("span", {});
    this.again = button("Refresh", () => this.refresh(), "plain");
    this.again.hidden = true;
    this.refresh = () => {};
    const title = () => document.querySelector(".menu [aria-current]")?.textContent ?? "this page";
    const help = entries && button("Help", () => showHelp(title(), entries), "plain");
    this.element = h("div", { class: "page-line" }, this.time, this.again, help);
  }

  /** Say that the page has been refreshed now; `refresh` does it again. */
  refreshed(refresh) {
    this.time.textContent = `Refreshed at ${clock(Date.now())}`;
    this.again.hidden = false;
    this.refresh = refresh;
  }
}
