/** Files for the user to keep. They are asked for with the credentials' header, so they are links to nothing. */

import { send } from "../api/client.js";
import { h } from "./element.js";

/** Raises Problem. */
export async function download(parts, name, query) {
  const response = await send("GET", parts, { query });
  save(await response.blob(), name);
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
