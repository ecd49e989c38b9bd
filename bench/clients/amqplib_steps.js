// Node's amqplib, its promises. Also a request and its answer over a reply queue, on two channels.
"use strict";
const amqp = require("amqplib");
const { timed, queuesToGets, Deliveries, run, BODY } = require("./timed_steps.js");

async function requests(connection, queue, times) {
  const [asking, answering] = [await connection.createChannel(), await connection.createChannel()];
  const reply = (await asking.assertQueue("", { exclusive: true })).queue;
  const answers = new Deliveries();
  await asking.consume(reply, (message) => answers.push(message), { noAck: true });
  await answering.consume(queue, (message) => {
    answering.sendToQueue(message.properties.replyTo, message.content);
    answering.ack(message);
  });
  for (let number = 0; number < times; number++) {
    await timed("request", () => {
      asking.sendToQueue(queue, BODY, { replyTo: reply });
      return answers.next();
    });
  }
  await asking.close();
  await answering.close();
}

async function session(uri, times) {
  const names = Array.from({ length: times }, (_, number) => `bench.clients.amqplib.${number}`);
  const connection = await timed("connect", () => amqp.connect(uri));
  const channel = await timed("channel", () => connection.createConfirmChannel());
  const publish = () => {
    channel.publish("amq.direct", names[0], BODY, { persistent: true });
    return channel.waitForConfirms();
  };
  await queuesToGets(channel, names, publish);
  await channel.prefetch(1);
  const deliveries = new Deliveries();
  let consumer;
  for (const [number] of names.entries()) {
    await timed("consume", async () => {
      if (number === 0) consumer = await channel.consume(names[0], (message) => deliveries.push(message));
      channel.ack(await deliveries.next());
    });
  }
  await timed("cancel", () => channel.cancel(consumer.consumerTag));
  await requests(connection, names[0], times);
  for (const name of names) await timed("delete", () => channel.deleteQueue(name));
  await timed("close", () => connection.close());
}

run(session);
