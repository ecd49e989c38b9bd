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

  async routing(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const prefix = `node-${process.pid}`;
    const bodies = [];
    for (const [type, pattern, key] of [["direct", "k", "k"], ["fanout", "", "any"], ["topic", "a.*.#", "a.b.c"]]) {
      const { exchange } = await channel.assertExchange(`${prefix}-${type}`, type, { durable: false, autoDelete: true });
      await channel.bindQueue(queue, exchange, pattern);
      channel.publish(exchange, key, Buffer.from(type));
      channel.publish(exchange, type === "fanout" ? "other" : "none", Buffer.from(`${type} again`));
      bodies.push(...(await take(channel, queue, type === "fanout" ? 2 : 1)));
      await channel.unbindQueue(queue, exchange, pattern);
    }
    const outer = `${prefix}-outer`, inner = `${prefix}-inner`;
    await channel.assertExchange(outer, "headers", { autoDelete: true });
    await channel.assertExchange(inner, "fanout", { autoDelete: true, internal: true });
    await channel.bindExchange(inner, outer, "", { "x-match": "all", n: 1 });
    await channel.bindQueue(queue, inner, "");
    channel.publish(outer, "", Buffer.from("no"), { headers: { n: 2 } });
    channel.publish(outer, "", Buffer.from("headers"), { headers: { n: 1 } });
    const [through] = await take(channel, queue, 1);
    return { routed: bodies.length, last: String(through.content) };
  },

  async requeue(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (const body of ["1", "2", "3"]) channel.sendToQueue(queue, Buffer.from(body));
    await channel.prefetch(1);
    const seen = [];
    let consumer;
    await new Promise((resolve) => {
      consumer = channel.consume(queue, (message) => {
        seen.push([String(message.content), message.fields.redelivered]);
        if (seen.length === 1) channel.nack(message, false, true);
        else if (seen.length === 3) channel.reject(message, false);
        else channel.ack(message);
        if (seen.length === 4) resolve();
      });
    });
    await channel.cancel((await consumer).consumerTag);
    return seen;
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

  async large(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const body = Buffer.alloc(10 << 20, "0123456789abcdef0");
    channel.sendToQueue(queue, body, { persistent: true });
    await channel.waitForConfirms();
    const [message] = await take(channel, queue, 1);
    return message.content.equals(body);
  },

  // Publishes a message every so often until the broker is gone; prints each number once it is confirmed.
  async untilTheEnd(connection) {
    connection.on("error", () => {});
    const gone = new Promise((resolve) => connection.on("close", resolve));
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue("until", { durable: true });
    let over = false;
    gone.then(() => { over = true; });
    const confirmed = [];
    for (let number = 0; !over; number++) {
      try {
        await new Promise((resolve, reject) => {
          channel.sendToQueue("until", Buffer.from(String(number)), { persistent: true },
            (error) => (error ? reject(error) : resolve()));
          gone.then(reject);
        });
      } catch {
        break;
      }
      confirmed.push(number);
      if (confirmed.length === 200) console.log("under way");
    }
    return confirmed.length;
  },
};

async function main() {
  const [url, scenario] = process.argv.slice(2);
  const connection = await amqp.connect(url);
  const result = await scenarios[scenario](connection);
  try {
    await connection.close();
  } catch {
    // It is gone already: the scenario ended it.
  }
  console.log(JSON.stringify(result));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
