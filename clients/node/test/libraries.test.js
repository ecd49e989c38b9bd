// Node's libraries for AMQP against a broker that is killed under them.
"use strict";
const assert = require("node:assert/strict");
const { once } = require("node:events");
const { test } = require("node:test");
const amqplib = require("amqplib");
const manager = require("amqp-connection-manager");
const rascal = require("rascal");
const { useLeveret } = require("leveret-memory-server/node-test");

const leveret = useLeveret();

test("amqplib: a worker's message comes again after a lost acknowledgement", async () => {
  const connection = await amqplib.connect(leveret.url);
  connection.on("error", () => {});
  const closed = new Promise((resolve) => connection.on("close", resolve));
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("orders", { durable: true });
  await leveret.faults.add("lose-connection-before-ack", { queue: "orders" });
  await channel.consume("orders", (message) => channel.ack(message));
  channel.sendToQueue("orders", Buffer.from("one"), { persistent: true });
  await closed;
  await leveret.expect("requeued", { queue: "orders" });
  await leveret.expect({ queue: "orders", ready: 1, consumers: 0 });
});

test("amqp-connection-manager: what is published while the broker is down arrives", async () => {
  const connection = manager.connect([leveret.url], { reconnectTimeInSeconds: 0.05 });
  const channel = connection.createChannel({
    json: true,
    setup: (each) => each.assertQueue("orders", { durable: true }),
  });
  await channel.waitForConnect();
  const lost = once(connection, "disconnect");
  await leveret.kill();
  await lost;
  const published = channel.sendToQueue("orders", { number: 1 }, { persistent: true });
  await leveret.start();
  await published;
  await leveret.expect({ queue: "orders", ready: 1 });
  await channel.close();
  await connection.close();
});

test("rascal: a subscription goes on after the broker has cancelled its consumer", async () => {
  const retry = { min: 10, max: 50, factor: 1, strategy: "linear" };
  const config = rascal.withDefaultConfig({
    vhosts: {
      "/": {
        connection: { url: `${leveret.url}/%2f`, retry },
        exchanges: ["shop"],
        queues: ["orders"],
        bindings: ["shop[order.#] -> orders"],
        publications: { placed: { exchange: "shop", routingKey: "order.placed", confirm: true } },
        subscriptions: { orders: { queue: "orders", retry } },
      },
    },
  });
  const broker = await rascal.BrokerAsPromised.create(config);
  broker.on("error", () => {});
  try {
    const numbers = [];
    const subscription = await broker.subscribe("orders");
    subscription.on("error", () => {}).on("message", (message, content, acknowledge) => {
      numbers.push(content.number);
      acknowledge();
    });
    await leveret.expect({ queue: "orders", consumers: 1 });
    await once(await broker.publish("placed", { number: 1 }), "success");
    await leveret.expect("acked", { queue: "orders" });
    await leveret.faults.add("cancel-consumer", { queue: "orders" });
    await leveret.expect({ queue: "orders", consumers: 1, timeoutSeconds: 20 });
    await once(await broker.publish("placed", { number: 2 }), "success");
    await leveret.expect("acked", { queue: "orders", count: 2, timeoutSeconds: 20 });
    assert.deepEqual(numbers, [1, 2]);
  } finally {
    await broker.shutdown();
  }
});
