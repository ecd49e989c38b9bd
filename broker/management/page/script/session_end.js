/** The end of a session: after a 401 the log-in form is shown in place of the page. */

import { forget } from "./api/credentials.js";
import { session } from "./api/session.js";
import { showLogin } from "./views/login.js";

/** Handle the event that `api/requests.js` dispatches for a 401 of a user that had logged in. */
export function watchSession() {
  document.addEventListener("leveret:logged-out", (event) => {
    if (session.name) {
      document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
      session.name = "";
      forget(); // further requests with these credentials would count as wrong passwords
      showLogin(() => location.reload(), `${event.detail.message}: log in again.`);
    }
  });
}
