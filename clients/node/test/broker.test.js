// A broker of this package: its process, its clock, its faults, its history.
"use strict";
const assert = require("node:assert/strict");
const { execFile } = require("node:child_process");
const { existsSync } = require("node:fs");
const net = require("node:net");
const { once } = require("node:events");
const { test } = require("node:test");
const { promisify } = require("node:util");
const amqplib = require("amqplib");
const { Control, Leveret, LeveretError, NotMetError } = require("leveret-memory-server");
const { useLeveret } = require("leveret-memory-server/node-test");

const leveret = useLeveret();

async function connect(url = leveret.url) {
  const connection = await amqplib.connect(url);
  connection.on("error", () => {});
  const channel = await connection.createConfirmChannel();
  return { connection, channel };
}

async function publish(channel, queue, text) {
  await channel.assertQueue(queue, { durable: true });
  channel.sendToQueue(queue, Buffer.from(text), { persistent: true });
  await channel.waitForConfirms();
}

async function refused(port) {
  const socket = net.connect(port, "127.0.0.1");
  await assert.rejects(once(socket, "connect"), { code: "ECONNREFUSED" });
}

test("a confirmed message survives a kill, on the same port", async () => {
  const { channel } = await connect();
  await publish(channel, "orders", "one");
  const { port, pid } = leveret;
  await leveret.kill();
  await refused(port);
  await leveret.start();
  assert.equal(leveret.port, port);
  assert.notEqual(leveret.pid, pid);
  await leveret.expect({ queue: "orders", ready: 1 });
  await leveret.restart();
  await leveret.expect({ queue: "orders", ready: 1 });
});

test("each test begins with an empty broker, also after a kill", async () => {
  assert.deepEqual(await leveret.history(), []);
  await leveret.kill();
  await assert.rejects(leveret.status(), LeveretError);
  await leveret.fresh();
  assert.deepEqual(await leveret.history("declared"), []);
});

test("an hour passes at once", async () => {
  const { channel, connection } = await connect();
  await channel.assertQueue("later", { messageTtl: 3600_000, deadLetterExchange: "", deadLetterRoutingKey: "now" });
  await publish(channel, "now", "first");
  await leveret.clock.stop();
  const before = await leveret.clock.time();
  channel.sendToQueue("later", Buffer.from("second"));
  await channel.waitForConfirms();
  await leveret.clock.step(3600);
  assert.equal((await leveret.clock.time()) - before, 3600_000);
  await leveret.expect({ queue: "now", ready: 2 });
  const [event] = await leveret.expect("expired", { queue: "later" });
  assert.equal(event.queue, "later");
  await leveret.clock.set(new Date("2037-01-31T12:00:00Z")).catch((error) => assert.match(error.message, /400 days/));
  await leveret.clock.start();
  await connection.close();
});

test("a confirm that fails, and says how often", async () => {
  const { channel, connection } = await connect();
  await channel.assertQueue("orders");
  const fault = await leveret.faults.add("nack-confirms", { routingKey: "ord*", times: 2 });
  channel.sendToQueue("orders", Buffer.from("one"));
  await assert.rejects(channel.waitForConfirms());
  assert.equal(await fault.fired(), 1);
  assert.deepEqual((await leveret.faults.list()).map(({ left }) => left), [1]);
  await fault.lift();
  await assert.rejects(fault.fired(), LeveretError);
  await leveret.faults.add("stall");
  await leveret.faults.lift();
  assert.deepEqual(await leveret.faults.list(), []);
  await connection.close();
});

test("a fault that ends the process", async () => {
  const { channel } = await connect();
  await publish(channel, "orders", "one");
  await leveret.waitUntilIdle();
  await leveret.faults.add("die-after-commit");
  channel.sendToQueue("orders", Buffer.from("two"), { persistent: true });
  assert.equal(await leveret.waitForEnd(), -9);
  await leveret.start();
  await leveret.expect({ queue: "orders", ready: 2 });
  assert.match(await leveret.log(), /die-after-commit/);
});

test("a snapshot is restored", async () => {
  const { channel } = await connect();
  await publish(channel, "orders", "one");
  await leveret.snapshot.save("shop");
  assert.deepEqual(await leveret.snapshot.list(), ["shop"]);
  await leveret.reset();
  await leveret.snapshot.restore("shop");
  await leveret.expect({ queue: "orders", ready: 1 });
  await leveret.snapshot.delete("shop");
});

test("what did not happen is told with what did", async () => {
  const { channel, connection } = await connect();
  await publish(channel, "orders", "one");
  const never = leveret.expect("acked", { queue: "orders", timeoutSeconds: 0.1 });
  await assert.rejects(never, (error) => error instanceof NotMetError && /routed 1/.test(error.message));
  await assert.rejects(never, ({ stack }) => /^NotMetError: within/.test(stack) && !/control.js|index.js|node:internal/.test(stack));
  const [event] = await leveret.history("published", { bodies: true });
  assert.equal(event.routing_key, "orders");
  await connection.close();
});

test("an expectation that is not met shows the log of the test", async () => {
  await leveret.restart();
  const never = leveret.expect("acked", { queue: "orders", timeoutSeconds: 0.1 });
  await assert.rejects(never, ({ message }) => /^within .+\nthe broker's log during the test:\n.+ stopped\n/s.test(message));
});

test("another RabbitMQ beside it, which is closed with all that it had", async () => {
  const other = await Leveret.start({ personality: "4.3", settings: "[limits]\nconsumer_timeout_seconds = 60\n" });
  const { connection } = await connect(other.url);
  assert.match(connection.connection.serverProperties.version, /^4\.3/);
  await connection.close();
  await assert.rejects(new Control(other.managementUrl).order("POST", "no-such-request"), LeveretError);
  const { directory, port } = other;
  assert.ok(existsSync(directory));
  await other.close();
  await other.close();
  assert.ok(!existsSync(directory));
  await refused(port);
  assert.throws(() => other.url, LeveretError);
});

test("settings that the broker refuses", async () => {
  await assert.rejects(Leveret.start({ settings: "[server]\nspeed = 3\n" }), /did not start[^]*speed/);
});

test("a program that is none", async () => {
  await assert.rejects(Leveret.start({ program: "/no/such/program" }), /\/no\/such\/program/);
});

// Another platform, as a process on it would see it.
const elsewhere = process.arch === "x64" ? "arm64" : "x64";
for (const [platform, arch, remedy] of [
  ["win32", "x64", /WSL2/],
  ["darwin", "arm64", /packages are for linux-arm64 and linux-x64; .*LEVERET_PROGRAM/],
  ["linux", elsewhere, /package leveret-memory-server-linux-.* is not installed/],
]) {
  test(`no program for ${platform} on ${arch}`, async () => {
    const script = `for (const [name, value] of Object.entries({ platform: "${platform}", arch: "${arch}" }))
        Object.defineProperty(process, name, { value });
      require("leveret-memory-server").Leveret.start().catch(({ name, message }) => console.log(name, message));`;
    const { LEVERET_PROGRAM, ...env } = process.env;
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", script], { cwd: __dirname, env });
    assert.match(stdout, /^LeveretError there is no Leveret for /);
    assert.match(stdout, remedy);
  });
}

// Without `close` a process ends all the same, and its broker with it; so it does when it is killed.
for (const end of ["", "process.kill(process.pid, 'SIGKILL');"]) {
  test(`a broker ends with its process: ${end || "at its end"}`, async () => {
    const script = `const { Leveret } = require("leveret-memory-server");
      Leveret.start().then((leveret) => { require("node:fs").writeSync(1, String(leveret.port)); ${end} });`;
    const run = promisify(execFile)(process.execPath, ["-e", script], { cwd: __dirname, timeout: 30_000 });
    const { stdout } = await run.catch((failed) => failed);
    assert.match(stdout, /^\d+$/);
    const deadline = Date.now() + 30_000;
    let listening = true;
    while (listening && Date.now() < deadline) {
      const socket = net.connect(Number(stdout), "127.0.0.1");
      listening = await once(socket, "connect").then(() => true, () => false);
      socket.destroy();
    }
    assert.equal(listening, false);
  });
}
