// Run by `node --test`: the broker is started for this file, and is empty before each test.
"use strict";
const assert = require("node:assert/strict");
const { afterEach, before, test } = require("node:test");
const amqplib = require("amqplib");
const { useLeveret } = require("leveret-memory-server/node-test");
const { declare, put, work } = require("./resizer.js");

const leveret = useLeveret();

let connections = [];
async function connected() {
  const connection = await amqplib.connect(leveret.url);
  connections.push(connection);
  const channel = await connection.createConfirmChannel();
  await declare(channel);
  return channel;
}
async function working(resize) {
  connections.push(await work(leveret.url, resize));
}

before(async () => {
  await leveret.fresh(); // it has started: hooks of a file run at the same time
  const channel = await connected();
  for (let number = 0; number < 20; number += 1) await put(channel, "pictures", Buffer.from(`${number}.png`));
  await leveret.snapshot.save("pictures");
});
afterEach(async () => {
  for (const connection of connections.splice(0)) await connection.close().catch(() => {});
});

test("a picture is resized", async () => {
  const resized = [];
  await working(async (name) => resized.push(name));
  await put(await connected(), "pictures", Buffer.from("hare.png"));
  await leveret.expect("acked", { queue: "pictures" });
  assert.deepEqual(resized, ["hare.png"]);
});

test("pictures that wait are resized in their turn", async () => {
  const resized = [];
  await leveret.snapshot.restore("pictures");
  await working(async (name) => resized.push(name));
  await leveret.expect("acked", { queue: "pictures", count: 20 });
  assert.deepEqual(resized, Array.from({ length: 20 }, (_, number) => `${number}.png`));
});

test("what fails is tried again an hour later", async () => {
  let attempts = 0;
  await working(async () => {
    attempts += 1;
    if (attempts === 1) throw new Error("the disk is full");
  });
  await leveret.clock.stop();
  await put(await connected(), "pictures", Buffer.from("hare.png"));
  await leveret.waitUntilIdle(); // before an hour passes, in which the worker would have acknowledged nothing
  await leveret.expect({ queue: "pictures.later", ready: 1 });
  assert.equal(attempts, 1);
  await leveret.clock.step(3600);
  await leveret.expect("acked", { queue: "pictures", count: 2 });
  assert.equal(attempts, 2);
});

test("a publish that the broker does not confirm is refused", async () => {
  const channel = await connected();
  await leveret.faults.add("nack-confirms", { queue: "pictures" });
  await assert.rejects(put(channel, "pictures", Buffer.from("hare.png")));
});

test("a picture whose acknowledgement is lost comes again", async () => {
  const resized = [];
  await leveret.snapshot.restore("pictures");
  await leveret.faults.add("lose-connection-before-ack", { queue: "pictures" });
  await working(async (name) => resized.push(name));
  await leveret.expect("requeued", { queue: "pictures" });
  await working(async (name) => resized.push(name));
  await leveret.expect("acked", { queue: "pictures", count: 20 });
  assert.deepEqual(resized.slice(0, 3), ["0.png", "0.png", "1.png"]);
});
