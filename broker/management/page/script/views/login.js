/** The log-in form. */

import { logIn } from "../api/session.js";
import { h } from "../dom/element.js";
import { logo } from "../layout.js";

/** Show the form in place of the page. `entered` is called once the broker has accepted the credentials. */
export function showLogin(entered, remark = "") {
  document.title = "Log in · Leveret";
  const user = h("input", {
    id: "user",
    name: "user",
    autocomplete: "username",
    autocapitalize: "none",
    spellcheck: "false",
    required: true,
  });
  const password = h("input", {
    id: "password",
    name: "password",
    type: "password",
    autocomplete: "current-password",
    required: true,
  });
  const problem = h("p", { class: "problem", role: "alert", hidden: !remark }, remark);
  const button = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h(
    "form",
    {},
    h("div", { class: "field" }, h("label", { class: "title", for: "user" }, "User"), user),
    h("div", { class: "field" }, h("label", { class: "title", for: "password" }, "Password"), password),
    button,
    problem,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await logIn(user.value, password.value);
      entered();
    } catch (refused) {
      problem.textContent = `${refused.message}${refused.message.endsWith(".") ? "" : "."}`;
      problem.hidden = false;
      button.disabled = false;
      password.select();
    }
  });
  document.body.replaceChildren(
    h("main", { class: "login" }, h("h1", { class: "brand" }, logo(), "Leveret"), h("div", { class: "card" }, form)),
  );
  user.focus();
}
