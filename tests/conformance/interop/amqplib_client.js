// Scenarios for Node's amqplib. Run as: node amqplib_client.js URL SCENARIO; the result is one line of JSON.
"use strict";
const amqp = require("amqplib");

const COUNT = 1000;

// Consumes so many messages from a queue and cancels the consumer.
async function take(channel, queue, count, options = {}) {
  const found = [];
  let consumer;
  await new Promise((resolve) => {
    consumer = channel.consume(queue, (message) => {
      found.push(message);
      if (!options.noAck) channel.ack(message);
      if (found.length === count) resolve();
    }, options);
  });
  await channel.cancel((await consumer).consumerTag);
  return found;
}

// Runs an operation on a channel of its own that the server must close; returns code and text.
async function refused(connection, operation) {
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  try {
    await operation(channel);
  } catch (error) {
    return [error.code, error.message.replace(/^.*with message "/, "").slice(0, 40)];
  }
  return "not refused";
}

const scenarios = {
  async confirms(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { durable: true, exclusive: true });
    for (let number = 0; number < COUNT; number++) {
      channel.sendToQueue(queue, Buffer.from(String(number)), { persistent: true });
    }
    await channel.waitForConfirms();
    await channel.prefetch(50);
    const bodies = (await take(channel, queue, COUNT)).map((message) => Number(message.content));
    return { count: bodies.length, inOrder: bodies.every((number, index) => number === index) };
  },

  async properties(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const headers = {
      none: null, yes: true, small: 7, big: 2 ** 40, float: 2.5, text: "Häschen",
      deep: { list: [1, "two", { three: 3 }] },
    };
    channel.sendToQueue(queue, Buffer.from("x"), {
      headers, contentType: "text/plain", contentEncoding: "utf-8", deliveryMode: 2, priority: 3, correlationId: "corr",
      replyTo: "back", expiration: "60000", messageId: "id", timestamp: 1700000000, type: "kind", userId: "guest",
      appId: "app",
    });
    const [message] = await take(channel, queue, 1);
    return message.properties;
  },

  async returned(connection) {
    const channel = await connection.createConfirmChannel();
    const back = new Promise((resolve) => channel.on("return", resolve));
    const order = [];
    channel.on("return", () => order.push("return"));
    channel.publish("", "nobody", Buffer.from("x"), { mandatory: true }, () => order.push("confirm"));
    await channel.waitForConfirms();
    const { fields, content } = await back;
    return { code: fields.replyCode, text: fields.replyText, key: fields.routingKey, body: String(content), order };
  },

  async rpc(connection) {
    const channel = await connection.createChannel();
    const { queue: service } = await channel.assertQueue("", { exclusive: true });
    const { queue: replies } = await channel.assertQueue("", { exclusive: true });
    await channel.consume(service, (message) => {
      const { replyTo, correlationId } = message.properties;
      channel.sendToQueue(replyTo, Buffer.from(String(message.content * 2)), { correlationId });
    }, { noAck: true });
    const answers = {};
    for (const replyTo of [replies, "amq.rabbitmq.reply-to"]) {
      const found = [];
      const complete = new Promise((resolve) => {
        channel.consume(replyTo, (message) => {
          found.push([message.properties.correlationId, Number(message.content)]);
          if (found.length === 3) resolve();
        }, { noAck: true }).then(() => {
          for (const number of [1, 2, 3]) {
            channel.sendToQueue(service, Buffer.from(String(number)), { replyTo, correlationId: String(number) });
          }
        });
      });
      await complete;
      answers[replyTo === replies ? "queue" : "direct"] = found;
    }
    return answers;
  },

  async errors(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const other = await amqp.connect(process.argv[2]);
    const result = {
      missing: await refused(connection, (c) => c.checkQueue("no-such-queue")),
      different: await refused(connection, (c) => c.assertExchange("amq.topic", "fanout")),
      reserved: await refused(connection, (c) => c.assertExchange("amq.mine", "direct")),
      locked: await refused(other, (c) => c.checkQueue(queue)),
      alive: (await channel.checkQueue(queue)).messageCount,
    };
    await other.close();
    return result;
  },
};

async function main() {
  const [url, scenario] = process.argv.slice(2);
  const connection = await amqp.connect(url);
  const result = await scenarios[scenario](connection);
  await connection.close();
  console.log(JSON.stringify(result));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
