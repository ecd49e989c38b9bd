/** The backups in the directory of the settings; a new one. */

import { get, post } from "../../api/requests.js";
import { h } from "../../dom/element.js";
import { bytes, moment } from "../../dom/format.js";
import { attempt, say } from "../../widgets/notices.js";
import { button, head } from "../../widgets/page_parts.js";
import { Table } from "../../widgets/tables.js";

const COLUMNS = [
  { title: "Backup", name: true, show: (row) => row.name },
  { title: "Made", show: (row) => moment(row.time * 1000) },
  { title: "On the disk", number: true, show: (row) => bytes(row.bytes) },
];

export function showBackups(page) {
  const make = button("Back up now", () => attempt(backUp));
  const top = head("Backups", {
    lead: "All definitions and durable messages as of one moment. `leveret restore` puts one back, while the broker is stopped.",
    actions: [make],
  });
  const table = new Table(COLUMNS, (row) => row.name, { caption: "Backups" });
  const none = h("p", { class: "empty", hidden: true });
  const place = h("p", { class: "soft small" });
  page.show(top.element, h("section", { class: "card flush" }, table.element, none), place);

  async function backUp() {
    make.disabled = true;
    try {
      const made = await post(["leveret", "backups"]);
      say(`${made.name} is made${made.deleted.length ? `, and deleted: ${made.deleted.join(", ")}` : ""}.`);
    } finally {
      make.disabled = false;
      refresh();
    }
  }

  const refresh = page.fresh(async () => {
    const found = await get(["leveret", "backups"], {}, page.signal);
    table.show(found.backups);
    table.element.hidden = found.backups.length === 0;
    none.hidden = found.backups.length > 0;
    none.textContent = found.directory ? "No backups yet." : "backup.directory is not set in the settings.";
    make.disabled = !found.directory;
    place.textContent = found.directory ? `In ${found.directory}; the newest ${found.keep} of this broker are kept.` : "";
  });
}
