/** The dialog that moves messages to another queue, STEP with each request, until none is left or the user stops it. */

import { post } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { counted } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { openDialog } from "../../widgets/dialogs.js";
import { form, numberField, textField } from "../../widgets/forms.js";
import { say } from "../../widgets/notices.js";

const STEP = 1000;

export function moveMessages(vhost, name, refresh) {
  let stopped = false;
  const progress = h("p", { class: "remark calm", role: "status", hidden: true });
  const cancel = h("button", { type: "button", onclick: () => close() }, "Close");
  const body = form({
    fields: [
      textField("target", "To queue", { required: true, hint: `In the same virtual host, ${quoted(vhost)}.` }),
      numberField("count", "At most", { min: 1, placeholder: "all ready messages" }),
    ],
    action: "Move",
    cancel,
    send: async ({ target, count = Infinity }) => {
      stopped = false;
      let moved = 0;
      for (let some = 1; some > 0 && moved < count && !stopped; moved += some) {
        ({ moved: some } = await post(["leveret", "move", vhost, name], {
          to: target,
          count: Math.min(STEP, count - moved),
        }));
        progress.textContent = `${counted(moved + some, "message")} moved.`;
        progress.hidden = false;
      }
      return { moved, target };
    },
    done: ({ moved, target }) => {
      refresh();
      if (!stopped) {
        close();
      }
      say(`${counted(moved, "message")} moved to ${quoted(target)}.`);
    },
  });
  const text = h(
    "p",
    { class: "soft" },
    "A message is removed from this queue and added to the other one in a single write: a crash neither loses nor duplicates it. Order, headers and properties are kept.",
  );
  const close = openDialog(`Move messages of ${quoted(name)}`, h("div", {}, text, body, progress), {
    narrow: true,
    onclose: () => (stopped = true),
  });
  body.querySelector("input").focus();
}
