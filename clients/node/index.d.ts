/** A RabbitMQ for tests, and requests of tests to any broker with `[testing] enabled = true`. */

export type Personality = "3.10" | "3.13" | "4.2" | "4.3";

export interface StartOptions {
  /** Which RabbitMQ it is to its clients; 3.13 unless said. */
  personality?: Personality;
  /** Further settings, as lines of a configuration file (TOML). */
  settings?: string;
  /** Record all writes, so that `powerFailure` can be asked for; takes a C compiler. */
  powerFailures?: boolean;
  /** Directory for data and log, which is kept; a temporary one unless said. */
  directory?: string;
  /** Path of the program `leveret`; that of LEVERET_PROGRAM or of the package for this platform unless said. */
  program?: string;
}

/** Events of the history, and what they can be chosen by. */
export interface Which {
  vhost?: string;
  queue?: string;
  exchange?: string;
  routingKey?: string;
  connection?: string;
  channel?: number;
  consumerTag?: string;
  reason?: string;
  message?: number;
  body?: string;
  /** Only events with a higher number. */
  after?: number;
}

export interface HistoryOptions extends Which {
  event?: string;
  bodies?: boolean;
  limit?: number;
}

export interface Expected extends Which {
  event?: string;
  /** Number of events; 1 unless said. */
  count?: number;
  /** There are not more than `count`. */
  exactly?: boolean;
  /** Numbers of the queue. */
  ready?: number;
  unacked?: number;
  messages?: number;
  consumers?: number;
  /** 5 unless said. */
  timeoutSeconds?: number;
}

/** An event, with the fields that the broker gives it. */
export interface Event {
  id: number;
  event: string;
  /** The broker's time in milliseconds. */
  at: number;
  [field: string]: unknown;
}

/** A row of the requested faults. */
export interface FaultRow {
  id: number;
  fault: string;
  /** How often it has happened. */
  fired: number;
  /** How often it still may; null without end. */
  left: number | null;
  [field: string]: unknown;
}

/** Arguments of a fault: its own, which it is for, `times`, `skip`, `chance`, `seed`. */
export interface FaultOptions {
  connection?: string;
  user?: string;
  vhost?: string;
  channel?: number;
  exchange?: string;
  routingKey?: string;
  queue?: string;
  consumerTag?: string;
  times?: number;
  skip?: number;
  chance?: number;
  seed?: number;
  [argument: string]: unknown;
}

/** The broker did not start, does not answer, or refuses a request. */
export class LeveretError extends Error {}

/** An expectation was not met in time; the message says what was seen instead. */
export class NotMetError extends Error {}

export interface Clock {
  /** The broker's time. */
  time(): Promise<Date>;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Advance it, and do all work due by then; with `heartbeats` the time counts as silence of clients. */
  step(seconds: number, options?: { heartbeats?: boolean }): Promise<void>;
  set(to: Date | string, options?: { heartbeats?: boolean }): Promise<void>;
}

export interface Fault {
  readonly id: number;
  /** How often it has happened. */
  fired(): Promise<number>;
  lift(): Promise<void>;
}

export interface Faults {
  /** Request a fault: `add("nack-confirms", { queue: "orders", times: 2 })`. */
  add(fault: string, options?: FaultOptions): Promise<Fault>;
  list(): Promise<FaultRow[]>;
  /** Lift all. */
  lift(): Promise<void>;
}

export interface Snapshots {
  /** Save definitions and persistent messages. */
  save(name: string): Promise<void>;
  /** Restore them: connections are closed, all else is deleted. */
  restore(name: string): Promise<void>;
  delete(name: string): Promise<void>;
  list(): Promise<string[]>;
}

/** Requests to a broker by its HTTP API, `http://guest:guest@127.0.0.1:15672`. */
export class Control {
  constructor(managementUrl: string);
  readonly managementUrl: string;
  readonly clock: Clock;
  readonly faults: Faults;
  readonly snapshot: Snapshots;
  /** Send any request of docs/testing-with-leveret.md: `order("POST", "clock/step", { seconds: 60 })`. */
  order(
    method: "GET" | "POST" | "PUT" | "DELETE",
    path: string,
    values?: Record<string, unknown>,
    options?: { seconds?: number },
  ): Promise<any>;
  /** Clock, faults, snapshots, and the numbers of the history's events. */
  status(): Promise<Record<string, unknown>>;
  /** Close connections, and delete definitions, messages, faults and history. */
  reset(): Promise<void>;
  /** Wait for events, `expect("acked", { queue: "orders", count: 3 })`, and return them with bodies. */
  expect(event: string, which?: Expected): Promise<Event[]>;
  /** Wait for a state of a queue: `expect({ queue: "orders", ready: 0 })`. */
  expect(which: Expected): Promise<Event[]>;
  /** Events since the reset, oldest first; 1,000 unless `limit`. */
  history(event: string, which?: HistoryOptions): Promise<Event[]>;
  history(which?: HistoryOptions): Promise<Event[]>;
  /** Wait until broker and clients have nothing left to do. */
  waitUntilIdle(options?: { timeoutSeconds?: number; quietMilliseconds?: number }): Promise<void>;
}

/** A broker with its own process, ports and data. It ends with the tests, also when they are killed. */
export class Leveret extends Control {
  /** Not started yet; `Leveret.start` is what tests call. */
  constructor(options?: StartOptions);
  static start(options?: StartOptions): Promise<Leveret>;
  /** `amqp://guest:guest@127.0.0.1:PORT`: the virtual host `/`. `${url}/name` is another. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** The process of the last start. */
  readonly pid: number;
  readonly directory: string;
  readonly data: string;
  /** Start it after `stop`, `kill` or a fault, with the same ports and data. */
  start(): Promise<void>;
  /** Stop it in order (SIGTERM). */
  stop(): Promise<void>;
  /** Kill it (SIGKILL). Confirmed messages are there after `start`. */
  kill(): Promise<void>;
  /** `stop`, then `start`. */
  restart(): Promise<void>;
  /** Start it if it does not run, and empty it. */
  fresh(): Promise<void>;
  /** Kill it, and keep in its data only what was synced, and with a seed any part of the rest. */
  powerFailure(seed?: number): Promise<void>;
  /** Wait until a fault has ended the process; the exit code, -9 if it was killed. */
  waitForEnd(options?: { timeoutSeconds?: number }): Promise<number>;
  /** Its log over all starts. */
  log(): Promise<string>;
  /** End it and delete its files. */
  close(): Promise<void>;
}
