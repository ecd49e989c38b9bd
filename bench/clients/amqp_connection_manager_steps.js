// Node's amqp-connection-manager: connections and channels that come back, on amqplib.
"use strict";
const { connect } = require("amqp-connection-manager");
const { timed, queuesToGets, Deliveries, run, BODY } = require("./timed_steps.js");

async function session(uri, times) {
  const names = Array.from({ length: times }, (_, number) => `bench.clients.manager.${number}`);
  const connection = await timed("connect", async () => {
    const made = connect([uri]);
    await new Promise((resolve) => made.once("connect", resolve));
    return made;
  });
  const channel = await timed("channel", async () => {
    const made = connection.createChannel();
    await made.waitForConnect();
    return made;
  });
  const publish = () => channel.publish("amq.direct", names[0], BODY, { persistent: true });
  await queuesToGets(channel, names, publish);
  const deliveries = new Deliveries();
  let consumer;
  for (const [number] of names.entries()) {
    await timed("consume", async () => {
      if (number === 0) {
        consumer = await channel.consume(names[0], (message) => deliveries.push(message), { prefetch: 1 });
      }
      channel.ack(await deliveries.next());
    });
  }
  await timed("cancel", () => channel.cancel(consumer.consumerTag));
  for (const name of names) await timed("delete", () => channel.deleteQueue(name));
  await timed("close", () => connection.close());
}

run(session).then(() => process.exit(0));
