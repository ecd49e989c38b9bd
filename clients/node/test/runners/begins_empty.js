// The same test for each runner: it fails if the test before has left anything.
"use strict";
const assert = require("node:assert/strict");
const amqplib = require("amqplib");

async function beginsEmpty(leveret, series) {
  assert.deepEqual(await leveret.history("declared"), []);
  const connection = await amqplib.connect(leveret.url);
  assert.ok(connection.connection.serverProperties.version.startsWith(series));
  await (await connection.createChannel()).assertQueue("orders");
  await leveret.expect("declared", { queue: "orders" });
  await connection.close();
}

module.exports = { beginsEmpty };
