// The newcomer's application in Node.
"use strict";
const amqplib = require("amqplib");

async function placeOrder(url) {
  const connection = await amqplib.connect(url);
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("orders", { durable: true });
  channel.sendToQueue("orders", Buffer.from("one hare"), { persistent: true });
  await channel.waitForConfirms();
  await connection.close();
}

module.exports = { placeOrder };
