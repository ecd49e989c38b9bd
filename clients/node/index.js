// A RabbitMQ for tests: `const leveret = await Leveret.start()`, then `leveret.url`.
"use strict";
const { Control, NotMetError } = require("./control.js");
const { hostOf } = require("./host.js");
const { LeveretError } = require("./leveret-error.js");

class Leveret extends Control {
  #host;
  #number;
  #settings;
  #facts;
  #logBefore = 0;
  #turn = Promise.resolve();

  // Not started yet: for the helpers of test runners. Others call `Leveret.start`.
  constructor(options = {}) {
    super();
    const { program, personality, settings, powerFailures, directory } = options;
    this.#settings = { personality, settings, power_failures: powerFailures, directory };
    this.program = program;
  }

  static async start(options) {
    const leveret = new Leveret(options);
    await leveret.fresh();
    return leveret;
  }

  get url() {
    return this.#known().url;
  }

  get managementUrl() {
    return this.#known().managementUrl;
  }

  get host() {
    return this.#known().host;
  }

  get port() {
    return this.#known().port;
  }

  get pid() {
    return this.#known().pid;
  }

  get directory() {
    return this.#known().directory;
  }

  get data() {
    return this.#known().data;
  }

  // Start it, or empty it if it runs: what a test wants before it begins. Several calls at once are carried out in turn:
  // node:test runs the hooks of a file at the same time.
  fresh() {
    this.#turn = this.#turn.then(() => this.#fresh());
    const done = this.#turn;
    this.#turn = done.catch(() => {});
    return done;
  }

  async #fresh() {
    if (this.#number !== undefined) {
      this.#facts = await this.#ask("fresh");
      this.#logBefore = (await this.log()).length;
      return;
    }
    const host = hostOf(this.program);
    const number = host.enter();
    try {
      this.#facts = await host.ask("new", number, this.#settings);
    } catch (error) {
      host.leave();
      throw error;
    }
    [this.#host, this.#number] = [host, number];
  }

  // Start it after `stop`, `kill` or a fault, with the same ports and data.
  async start() {
    this.#facts = await this.#ask("start");
  }

  async stop() {
    await this.#ask("stop");
  }

  async kill() {
    await this.#ask("kill");
  }

  async restart() {
    await this.stop();
    await this.start();
  }

  async powerFailure(seed) {
    await this.#ask("power_failure", { seed });
  }

  async waitForEnd({ timeoutSeconds = 30 } = {}) {
    return await this.#ask("wait_for_end", { seconds: timeoutSeconds });
  }

  async log() {
    return await this.#ask("log");
  }

  // A request as to any broker; an expectation that is not met shows the log since the broker was empty.
  async order(...request) {
    try {
      return await super.order(...request);
    } catch (error) {
      if (!(error instanceof NotMetError)) throw error;
      throw error.withLog((await this.log()).slice(this.#logBefore));
    }
  }

  // End it and delete its files. Tests that end without do the same.
  async close() {
    if (this.#number === undefined) return;
    const host = this.#host;
    try {
      await this.#ask("close");
    } finally {
      this.#number = this.#facts = undefined;
      host.leave();
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }

  #ask(request, values) {
    this.#known();
    return this.#host.ask(request, this.#number, values);
  }

  #known() {
    if (this.#facts === undefined) throw new LeveretError("the broker was not started yet, or is closed");
    return this.#facts;
  }
}

module.exports = { Leveret, Control, LeveretError, NotMetError };
