// Run by `leveret test -- node --test`: the broker's address and that of its orders are in the environment.
"use strict";
const assert = require("node:assert/strict");
const { afterEach, before, beforeEach, test } = require("node:test");
const amqplib = require("amqplib");
const { declare, put, work } = require("./resizer.js");

const control = new URL(process.env.LEVERET_CONTROL_URL);
const login = "Basic " + btoa(`${control.username}:${control.password}`);

// Give the broker an order; what it answers.
async function order(method, path, given) {
  const url = `http://${control.host}/api/testing/${path}`;
  const body = given && JSON.stringify(given);
  const reply = await fetch(url, { method, body, headers: { authorization: login } });
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.reason);
  return answer;
}
const expect = (what) => order("POST", "expect", what);

let connections = [];
async function connected() {
  const connection = await amqplib.connect(process.env.AMQP_URL);
  connections.push(connection);
  const channel = await connection.createConfirmChannel();
  await declare(channel);
  return channel;
}
async function working(resize) {
  connections.push(await work(process.env.AMQP_URL, resize));
}

before(async () => {
  const channel = await connected();
  for (let number = 0; number < 20; number += 1) await put(channel, "pictures", Buffer.from(`${number}.png`));
  await order("PUT", "snapshots/pictures");
});
beforeEach(() => order("POST", "reset"));
afterEach(async () => {
  for (const connection of connections.splice(0)) await connection.close().catch(() => {});
});

test("a picture is resized", async () => {
  const resized = [];
  await working(async (name) => resized.push(name));
  await put(await connected(), "pictures", Buffer.from("hare.png"));
  await expect({ event: "acked", queue: "pictures" });
  assert.deepEqual(resized, ["hare.png"]);
});

test("pictures that wait are resized in their turn", async () => {
  const resized = [];
  await order("POST", "snapshots/pictures/restore");
  await working(async (name) => resized.push(name));
  await expect({ event: "acked", queue: "pictures", count: 20 });
  assert.deepEqual(resized, Array.from({ length: 20 }, (_, number) => `${number}.png`));
});

test("what fails is tried again an hour later", async () => {
  let attempts = 0;
  await working(async () => {
    attempts += 1;
    if (attempts === 1) throw new Error("the disk is full");
  });
  await order("POST", "clock/stop");
  await put(await connected(), "pictures", Buffer.from("hare.png"));
  await order("POST", "idle"); // before an hour passes, in which the worker would have acknowledged nothing
  await expect({ queue: "pictures.later", ready: 1 });
  assert.equal(attempts, 1);
  await order("POST", "clock/step", { seconds: 3600 });
  await expect({ event: "acked", queue: "pictures", count: 2 });
  assert.equal(attempts, 2);
});

test("a publish that the broker does not confirm is refused", async () => {
  const channel = await connected();
  await order("POST", "faults", { fault: "nack-confirms", queue: "pictures" });
  await assert.rejects(put(channel, "pictures", Buffer.from("hare.png")));
});

test("a picture whose acknowledgement is lost comes again", async () => {
  const resized = [];
  await order("POST", "snapshots/pictures/restore");
  await order("POST", "faults", { fault: "lose-connection-before-ack", queue: "pictures" });
  await working(async (name) => resized.push(name));
  await expect({ event: "requeued", queue: "pictures" });
  await working(async (name) => resized.push(name));
  await expect({ event: "acked", queue: "pictures", count: 20 });
  assert.deepEqual(resized.slice(0, 3), ["0.png", "0.png", "1.png"]);
});
