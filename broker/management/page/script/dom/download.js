/** Downloads. They need the header with the credentials, so links cannot be used. */

import { send } from "../api/requests.js";
import { h } from "./element.js";

/** Download a file of the API. Raises Problem. */
export async function download(parts, name, query) {
  const response = await send("GET", parts, { query });
  save(await response.blob(), name);
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
