/** The layout around all pages: navigation, the virtual host of lists, theme, refresh, log-out. */

import { logOut, session } from "./api/session.js";
import { h } from "./dom/element.js";
import { INTERVALS, chooseInterval, interval } from "./dom/freshness.js";
import { markedText } from "./dom/visible.js";
import { THEMES, setTheme, theme } from "./dom/theme.js";

/** Pairs of a title and its entries: text, first part of the address, true if the user may see it. */
function sections() {
  const { administrates, monitors } = session;
  return [
    ["", [["Overview", "", true]]],
    [
      "Traffic",
      [
        ["Connections", "connections", true],
        ["Channels", "channels", true],
      ],
    ],
    [
      "Messages",
      [
        ["Queues and streams", "queues", true],
        ["Exchanges", "exchanges", true],
        ["Shovels", "shovels", monitors],
      ],
    ],
    [
      "Durability",
      [
        ["Commits", "commits", monitors],
        ["Alarms", "alarms", monitors],
        ["Crash preview", "crash", monitors],
      ],
    ],
    [
      "Administration",
      [
        ["Virtual hosts", "vhosts", true],
        ["Users", "users", administrates],
        ["Permissions", "permissions", administrates],
        ["Policies", "policies", true],
        ["Limits", "limits", administrates],
        ["Definitions", "definitions", administrates],
        ["Backups", "backups", administrates],
        ["Tracing", "tracing", administrates],
        ["Event log", "event-log", monitors],
        ["Rehearsal", "rehearsal", monitors],
      ],
    ],
  ];
}

/** Show the layout. Returns the element for pages, and a function that marks the entry of the current page. */
export function layout() {
  const main = h("main", { class: "page", id: "page", tabindex: "-1" });
  const links = new Map();
  const side = h("header", { class: "side" }, brand(), scope(), menu(links), foot());
  const skip = h(
    "a",
    {
      class: "skip",
      href: "#page",
      onclick: (event) => {
        event.preventDefault();
        main.focus();
      },
    },
    "Skip the navigation",
  );
  document.body.replaceChildren(skip, h("div", { class: "frame" }, side, h("div", { class: "content" }, testing(), standby(), main)));
  const mark = (first) => {
    open(side, false);
    for (const [name, link] of links) {
      if (name === first) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    }
  };
  return { main, mark };
}

/** The warning on all pages of a broker with testing enabled. */
function testing() {
  const words = "Testing is enabled ([testing] in the settings): tests may stop the clock, inject faults and delete everything in this broker.";
  return session.testing && h("p", { class: "notice bad lasting", role: "status" }, words);
}

/** The word on all pages of a standby. */
function standby() {
  return session.standby && h("p", { class: "notice bad lasting", role: "status" }, `Nothing can be changed here: ${session.standby}.`);
}

export function logo() {
  return h("img", { src: "icon.svg", alt: "", width: 28, height: 28 });
}

function brand() {
  const button = h(
    "button",
    { type: "button", class: "menu-button", "aria-expanded": "false", "aria-controls": "menu" },
    "Menu",
  );
  button.addEventListener("click", () =>
    open(button.closest(".side"), button.getAttribute("aria-expanded") !== "true"),
  );
  return h("div", { class: "brand" }, h("a", { href: "#/" }, logo(), "Leveret"), button);
}

function open(side, wanted) {
  side.classList.toggle("open", wanted);
  side.querySelector(".menu-button").setAttribute("aria-expanded", String(wanted));
}

function menu(links) {
  const shown = sections().map(([title, entries]) => [title, entries.filter(([, , may]) => may)]);
  return h(
    "nav",
    { class: "menu", id: "menu", "aria-label": "Pages" },
    ...shown
      .filter(([, entries]) => entries.length)
      .map(([title, entries]) =>
        h(
          "div",
          {},
          title && h("h2", {}, title),
          h("ul", {}, ...entries.map(([text, name]) => h("li", {}, entry(links, text, name)))),
        ),
      ),
  );
}

function entry(links, text, name) {
  const link = h("a", { href: `#/${name}` }, text);
  links.set(name, link);
  return link;
}

/** The choice of the virtual host of lists; it is updated when a virtual host is added or deleted. */
function scope() {
  const element = h("div", { class: "side-scope" });
  const fill = () => {
    const options = [["", "All virtual hosts"], ...session.vhosts.map((name) => [name, markedText(name)])];
    const select = choice(options, session.vhost, (name) => {
      session.vhost = name;
      dispatchEvent(new HashChangeEvent("hashchange"));
    });
    element.hidden = session.vhosts.length < 2;
    element.replaceChildren(h("label", {}, "Virtual host", select));
  };
  document.addEventListener("leveret:vhosts", fill);
  fill();
  return element;
}

function foot() {
  return h(
    "div",
    { class: "side-foot" },
    h("label", {}, "Refresh", choice(INTERVALS, String(interval()), chooseInterval)),
    h("label", {}, "Theme", choice(Object.entries(THEMES), theme(), setTheme)),
    h(
      "div",
      { class: "who" },
      h("span", {}, session.name),
      h("button", { type: "button", class: "plain", onclick: logOut }, "Log out"),
    ),
    h("span", { class: "soft" }, session.product),
  );
}

function choice(options, value, chosen) {
  const select = h("select", { value }, ...options.map(([each, text]) => h("option", { value: each }, text)));
  select.addEventListener("change", () => chosen(select.value));
  return select;
}
