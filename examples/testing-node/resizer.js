// A worker for pictures: what fails waits an hour in the queue `pictures.later`, and is then tried again.
"use strict";
const amqplib = require("amqplib");

const HOUR = 3600_000;

async function declare(channel) {
  await channel.assertQueue("pictures", { durable: true });
  await channel.assertQueue("pictures.later", {
    durable: true,
    messageTtl: HOUR,
    deadLetterExchange: "",
    deadLetterRoutingKey: "pictures",
  });
}

// Publish and wait until the broker has it on disk. Rejects when it says that it has not.
function put(channel, queue, content) {
  return new Promise((resolve, reject) => {
    channel.sendToQueue(queue, content, { persistent: true }, (error) => (error ? reject(error) : resolve()));
  });
}

// Work until the connection is closed; `resize` is called for each picture.
async function work(url, resize) {
  const connection = await amqplib.connect(url);
  connection.on("error", () => {});
  const channel = await connection.createConfirmChannel();
  await declare(channel);
  await channel.prefetch(1);
  await channel.consume("pictures", async (message) => {
    if (message === null) return;
    try {
      await resize(message.content.toString());
    } catch {
      await put(channel, "pictures.later", message.content);
    }
    channel.ack(message);
  });
  return connection;
}

module.exports = { declare, put, work };
