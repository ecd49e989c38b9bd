// Times of single steps, for the programs of Node: milliseconds by step.
"use strict";

const steps = {};

// Times an operation as one occurrence of a step, and returns its result.
async function timed(step, operation) {
  const began = process.hrtime.bigint();
  const result = await operation();
  (steps[step] ||= []).push(Number(process.hrtime.bigint() - began) / 1e6);
  return result;
}

// Times declarations, publishes that `publish` has confirmed, gets and acknowledgements; leaves as many messages again.
async function queuesToGets(channel, names, publish) {
  for (const name of names) {
    await timed("declare", () => channel.assertQueue(name));
    await timed("bind", () => channel.bindQueue(name, "amq.direct", name));
  }
  for (const _ of names) await timed("publish", publish);
  for (const _ of names) {
    const message = await timed("get", () => channel.get(names[0]));
    await timed("ack", () => channel.ack(message));
  }
  for (const _ of names) await publish();
}

// Deliveries, in order, for whoever waits for the next.
class Deliveries {
  constructor() {
    this.arrived = [];
    this.waiting = [];
  }

  push(message) {
    const next = this.waiting.shift();
    if (next) next(message);
    else this.arrived.push(message);
  }

  next() {
    if (this.arrived.length) return Promise.resolve(this.arrived.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

// Runs a session as often as the arguments say: PROGRAM URI SESSIONS TIMES.
async function run(session) {
  const [uri, sessions, times] = process.argv.slice(2);
  for (let number = 0; number < Number(sessions); number++) await session(uri, Number(times));
  console.log(JSON.stringify(steps));
}

module.exports = { timed, queuesToGets, Deliveries, run, BODY: Buffer.alloc(100, "x") };
