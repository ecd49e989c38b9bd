// Test requests (docs/testing-with-leveret.md) to any broker with `[testing] enabled = true`, by HTTP.
"use strict";
const http = require("node:http");
const { LeveretError } = require("./leveret-error.js");

const ANSWER_SECONDS = 30;
const WAIT_SECONDS = 5;

class NotMetError extends Error {
  name = "NotMetError";

  // The stack has the lines of the test alone.
  constructor(message) {
    super(message);
    const ours = (line) => /^ +at /.test(line) && (line.includes(__dirname) || line.includes("node:internal"));
    this.stack = this.stack.split("\n").filter((line) => !ours(line)).join("\n");
  }

  // With the broker's log of the test behind the sentence, if there is any.
  withLog(log) {
    if (log.trim() === "") return this;
    const said = `${this.message}\nthe broker's log during the test:\n${log.trimEnd()}`;
    this.stack = this.stack.replace(this.message, () => said);
    this.message = said;
    return this;
  }
}

class Control {
  #managementUrl;

  // `managementUrl` has name and password of an administrator: http://guest:guest@127.0.0.1:15672
  constructor(managementUrl) {
    this.#managementUrl = managementUrl;
    this.clock = new Clock(this);
    this.faults = new Faults(this);
    this.snapshot = new Snapshots(this);
  }

  get managementUrl() {
    return this.#managementUrl;
  }

  // Send any test request; its answer. Arguments that are undefined are left out.
  async order(method, path, values = {}, { seconds = ANSWER_SECONDS } = {}) {
    const given = Object.entries(values).filter(([, value]) => value !== undefined);
    const asked = method === "GET" && given.length > 0 ? `?${new URLSearchParams(given)}` : "";
    const body = asked === "" && given.length > 0 ? JSON.stringify(Object.fromEntries(given)) : undefined;
    const place = `/api/testing/${path}`.replace(/\/$/, "") + asked;
    const { status, content } = await send(new URL(this.managementUrl), method, place, body, seconds);
    const answer = content === "" ? undefined : JSON.parse(content);
    if (status < 400) return answer;
    const reason = answer?.reason ?? content;
    if (status === 409) throw new NotMetError(reason);
    throw new LeveretError(`${method} ${place}: ${status}: ${reason}`);
  }

  status() {
    return this.order("GET", "");
  }

  async reset() {
    await this.order("POST", "reset");
  }

  async expect(event, which) {
    const { timeoutSeconds = WAIT_SECONDS, ...asked } = typeof event === "string" ? { ...which, event } : { ...event };
    const values = { ...named(asked), timeout_seconds: timeoutSeconds };
    const answer = await this.order("POST", "expect", values, { seconds: timeoutSeconds + ANSWER_SECONDS });
    return answer.events ?? [];
  }

  async history(event, which) {
    const asked = typeof event === "string" ? { ...which, event } : { ...event };
    return (await this.order("GET", "history", named(asked))).events;
  }

  async waitUntilIdle({ timeoutSeconds = WAIT_SECONDS, quietMilliseconds } = {}) {
    const values = { timeout_seconds: timeoutSeconds, quiet_milliseconds: quietMilliseconds };
    await this.order("POST", "idle", values, { seconds: timeoutSeconds + ANSWER_SECONDS });
  }
}

class Clock {
  #control;

  constructor(control) {
    this.#control = control;
  }

  async time() {
    return new Date((await this.#control.order("GET", "clock")).milliseconds);
  }

  async stop() {
    await this.#control.order("POST", "clock/stop");
  }

  async start() {
    await this.#control.order("POST", "clock/start");
  }

  async step(seconds, { heartbeats = false } = {}) {
    await this.#control.order("POST", "clock/step", { seconds, heartbeats });
  }

  async set(to, { heartbeats = false } = {}) {
    await this.#control.order("POST", "clock/set", { to: to instanceof Date ? to.toISOString() : to, heartbeats });
  }
}

class Faults {
  #control;

  constructor(control) {
    this.#control = control;
  }

  async add(fault, how = {}) {
    const { id } = await this.#control.order("POST", "faults", { ...named(how), fault });
    return new Fault(this.#control, id);
  }

  list() {
    return this.#control.order("GET", "faults");
  }

  async lift() {
    await this.#control.order("DELETE", "faults");
  }
}

class Fault {
  #control;

  constructor(control, id) {
    this.#control = control;
    this.id = id;
  }

  async fired() {
    const found = (await this.#control.order("GET", "faults")).find((fault) => fault.id === this.id);
    if (found === undefined) throw new LeveretError(`fault ${this.id} is lifted`);
    return found.fired;
  }

  async lift() {
    await this.#control.order("DELETE", `faults/${this.id}`);
  }
}

class Snapshots {
  #control;

  constructor(control) {
    this.#control = control;
  }

  async save(name) {
    await this.#control.order("PUT", `snapshots/${encodeURIComponent(name)}`);
  }

  async restore(name) {
    await this.#control.order("POST", `snapshots/${encodeURIComponent(name)}/restore`);
  }

  async delete(name) {
    await this.#control.order("DELETE", `snapshots/${encodeURIComponent(name)}`);
  }

  list() {
    return this.#control.order("GET", "snapshots");
  }
}

// Return the names of arguments as the requests have them: routingKey is routing_key.
function named(values) {
  const words = ([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value];
  return Object.fromEntries(Object.entries(values).map(words));
}

// A connection of its own for each request: one that is kept does not survive a killed broker.
function send(url, method, path, body, seconds) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const auth = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  const { hostname: host, port } = url;
  return new Promise((resolve, reject) => {
    const fail = (error) =>
      reject(new LeveretError(`no answer of a broker at http://${url.host} (${error.message}): does it run?`));
    const options = { host, port, method, path, auth, headers, agent: false, timeout: seconds * 1000 };
    const request = http.request(options, (reply) => {
      let content = "";
      reply.setEncoding("utf8");
      reply.on("data", (text) => (content += text));
      reply.on("end", () => resolve({ status: reply.statusCode, content }));
      reply.on("error", fail);
    });
    request.on("timeout", () => request.destroy(new Error(`nothing within ${seconds} s`)));
    request.on("error", fail);
    request.end(body);
  });
}

module.exports = { Control, NotMetError };
