/** Requests to the management API, and their errors. */

import { authorization } from "./credentials.js";
import { path } from "./names.js";

const REFUSED_LOGIN = "not_authorized";

/** A refused request. `status` is 0 if the broker could not be reached. */
export class Problem extends Error {
  constructor(status, error, reason) {
    super(reason || error || `HTTP ${status}`);
    this.status = status;
    this.error = error;
  }

  /** True if the credentials are no longer valid: `session_end.js` then shows the log-in form. */
  get loggedOut() {
    return this.status === 401 && (this.error === REFUSED_LOGIN || !this.error);
  }
}

/** An address of the API, which is relative to that of this page. `query` is an object, or URLSearchParams. */
function address(parts, query) {
  const url = new URL("api/" + path(...parts), document.baseURI);
  for (const [name, value] of query instanceof URLSearchParams ? query : Object.entries(query ?? {})) {
    if (value !== undefined && value !== "" && value !== false) {
      url.searchParams.append(name, String(value));
    }
  }
  return url;
}

/** Send a request, and return the response of fetch. Raises Problem. */
export async function send(method, parts, { query, body, signal, headers } = {}) {
  let response;
  try {
    response = await fetch(address(parts, query), {
      method,
      signal,
      headers: {
        authorization: authorization(),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit", // otherwise the browser itself asks for a password after a 401
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Problem(0, "unreachable", "The broker does not answer.");
  }
  if (!response.ok) {
    const problem = await problemOf(response);
    if (problem.loggedOut) {
      document.dispatchEvent(new CustomEvent("leveret:logged-out", { detail: problem }));
    }
    throw problem;
  }
  return response;
}

async function problemOf(response) {
  let { error, reason } = { error: "", reason: "" };
  try {
    ({ error, reason } = JSON.parse(await response.text()));
  } catch {
    reason = `${response.status} ${response.statusText}`;
  }
  return new Problem(response.status, error, shown(reason));
}

/** A reason as text; some are an Erlang term in a list: `["not_boolean", "mx"]`. */
function shown(reason) {
  if (Array.isArray(reason)) {
    return reason.map(shown).join(" ");
  }
  return typeof reason === "object" && reason !== null ? JSON.stringify(reason) : String(reason ?? "");
}

async function value(response) {
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export async function get(parts, query, signal) {
  return value(await send("GET", parts, { query, signal }));
}

export async function put(parts, body) {
  return value(await send("PUT", parts, { body }));
}

export async function post(parts, body, query) {
  return value(await send("POST", parts, { body, query }));
}

export async function remove(parts, { query, headers } = {}) {
  return value(await send("DELETE", parts, { query, headers }));
}
