// The process `leveret test-brokers`, which runs this process's brokers: a request and an answer by a line of JSON each.
// It and all its brokers end with this process, in whatever way that ends.
"use strict";
const { spawn } = require("node:child_process");
const readline = require("node:readline");
const { LeveretError } = require("./leveret-error.js");
const { findProgram } = require("./program.js");

class Host {
  #child;
  #waiting = new Map();
  #last = 0;
  #brokers = 0;

  constructor(program) {
    this.program = program;
  }

  // Return the number of a new broker; the process runs as long as there is one.
  enter() {
    this.#brokers += 1;
    return (this.#last += 1);
  }

  leave() {
    this.#brokers -= 1;
    if (this.#brokers === 0 && this.#child !== undefined) {
      this.#child.stdin.end();
      this.#child = undefined;
    }
  }

  ask(request, broker, values = {}) {
    this.#child ??= this.#spawn();
    const child = this.#child;
    const id = (this.#last += 1);
    hold(child); // this process does not end while it waits
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { child, resolve, reject });
      child.stdin.write(`${JSON.stringify({ id, request, broker, ...values })}\n`);
    });
  }

  #spawn() {
    // A session of its own: ^C at the terminal ends the tests, which then end it.
    const child = spawn(this.program, ["test-brokers"], { detached: true, stdio: ["pipe", "pipe", "pipe"] });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text) => (said = (said + text).slice(-10_000)));
    child.stdin.on("error", () => {}); // its end is told below
    child.on("error", (error) => this.#end(child, `${this.program}: ${error.message}`));
    child.on("close", (code, signal) => this.#end(child, `${this.program} has ended (${signal ?? code}): ${said}`));
    readline.createInterface({ input: child.stdout }).on("line", (line) => this.#hear(JSON.parse(line)));
    release(child);
    return child;
  }

  #hear({ id, answer, error }) {
    const { child, resolve, reject } = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) release(child);
    if (error === undefined) resolve(answer);
    else reject(new LeveretError(error));
  }

  #end(child, why) {
    if (this.#child === child) this.#child = undefined;
    for (const [id, waiting] of this.#waiting) {
      if (waiting.child !== child) continue;
      this.#waiting.delete(id);
      waiting.reject(new LeveretError(why));
    }
  }
}

function hold(child) {
  for (const end of [child, child.stdin, child.stdout, child.stderr]) end.ref();
}

function release(child) {
  for (const end of [child, child.stdin, child.stdout, child.stderr]) end.unref();
}

const hosts = new Map();

function hostOf(given) {
  const program = findProgram(given);
  if (!hosts.has(program)) hosts.set(program, new Host(program));
  return hosts.get(program);
}

module.exports = { hostOf };
