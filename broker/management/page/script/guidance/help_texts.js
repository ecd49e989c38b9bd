/** The help of each page, by the first part of its address: pairs of a term and its meaning. */

const RATES = ["Rates", "Messages per second, over the last five seconds. A dash: no figures yet."];
const READY = ["Ready", "Messages that wait for a consumer."];
const UNACKED = ["Unacked", "Messages that a consumer has been sent and has not acknowledged. They return if its channel closes."];
const LISTS = [
  "Lists",
  "A click on the head of a column sorts by it. “Columns” chooses the columns. Both are remembered in this browser. The broker filters, sorts and sums up the whole list, not this page of it alone.",
];
const MARKS = ["␣ ⇥ ↵ U+200B", "Marks of blanks at the ends of names, double blanks, tabs, line ends and invisible characters."];

export const QUEUE_LABELS = [
  ["T", "Transient: gone after a restart."],
  ["AD", "Auto-delete: deleted with its last consumer."],
  ["Excl", "Exclusive to one connection."],
  ["DLX", "A dead-letter exchange gets messages that are rejected, expired or beyond a limit."],
  ["TTL, Exp", "Messages expire; the queue expires when it is not used."],
  ["Lim", "At most so many messages or bytes."],
  ["Pri", "Messages with priorities."],
  ["SAC", "Single active consumer: one consumer gets messages, the others wait."],
  ["DL", "Delivery limit: messages that return too often are dead-lettered."],
];

const RIGHTS = [
  ["Configure, write, read", "Regular expressions of names that the user may declare and delete, publish to, consume from."],
  ["(nothing)", "An empty expression: matches no name."],
];
const CHANNELS = [
  ["Application", "The name that the client has given its connection (connection_name)."],
  ["State", "Idle: no message, acknowledgement or other change in the last five seconds."],
  ["Prefetch", "The most messages that a consumer has unacknowledged at a time."],
  UNACKED,
  ["Unconfirmed", "Messages of a publisher with confirms that are not on disk yet."],
];

export const HELP = {
  "": [
    ["Queued", "Messages in all queues: ready and unacknowledged ones."],
    ["Published, delivered", "Messages per second, over the last five seconds."],
    ["Confirmed", "Messages on disk, of publishers that use confirms."],
    ["Redelivered", "Messages delivered once more: requeued ones, and those of closed channels."],
    ["Returned, dropped", "Messages that no queue got: mandatory ones return to the publisher, others are dropped."],
    ["Bars", "Memory and disk: the way to the alarm that blocks publishers. Others: the used share."],
    ["Charts", "The arrow keys or the pointer show the values at a time. A click on a name below hides its line."],
    [
      "Memory",
      "The broker's own: queues, messages, connections. “docker stats” adds the kernel's memory and cached files; “top” (RSS) adds code and pages of the message store that were read, which memory.mapped_bytes_max limits. “leveret memory” has all of them.",
    ],
  ],
  connections: [
    ["State", "Running; idle: no more than heartbeats; blocked: an alarm holds its publishes back; flow: it is slowed down."],
    ["From client, to client", "Bytes per second on the wire."],
    LISTS,
  ],
  channels: [...CHANNELS, RATES, LISTS],
  queues: [
    READY,
    UNACKED,
    ["Incoming, delivered, acked, redelivered", "Messages per second, over the last five seconds."],
    ["State", "Idle: no change in the last five seconds."],
    ["Messages but no consumers", "A queue that fills, or keeps what nobody fetches."],
    ...QUEUE_LABELS,
    LISTS,
    MARKS,
  ],
  exchanges: [
    ["(default)", "Each queue is bound to it by its name."],
    ["Incoming, outgoing", "Messages of clients per second, and their copies in queues."],
    ["Internal", "Clients may not publish to it; other exchanges may be bound to it."],
    ["AE", "The alternate exchange gets messages that match no binding."],
    LISTS,
    MARKS,
  ],
  shovels: [
    ["Shovel", "Moves messages from a queue or exchange, of any broker, to another."],
    ["Dynamic, static", "Dynamic ones are set here and by the API, static ones in the settings."],
    ["State", "Starting, running, or terminated with the reason; it is started again after its delay."],
    ["Remaining, forwarded", "Messages until it ends by itself, and those moved so far; with RabbitMQ 4."],
  ],
  commits: [
    ["Commit", "One write of many messages to the disk. A confirm is sent after it."],
    ["Median", "Half of the values are below it."],
    ["99th percentile", "One of a hundred values is above it."],
    ["Charts", "A point for each interval with a commit. The broker keeps them for a day."],
  ],
  alarms: [
    ["Bars", "Full: the alarm is raised, and publishers are blocked."],
    ["Held back", "Bytes that blocked clients have sent, and that the broker has not handled."],
    ["Writes", "The disk hangs if a write does not come back. Confirms wait for it."],
  ],
  crash: [
    ["Confirmed and persistent", "On disk: a power failure does not lose them."],
    ["Not confirmed yet", "Their publishers wait for a confirm, and publish them again after reconnecting."],
    ["Transient", "Published as transient, or in queues that are not durable: kept in memory only, by choice."],
    ["In open transactions", "Not committed: as if never published."],
  ],
  vhosts: [READY, UNACKED, ["Virtual host", "A name space of queues, exchanges, permissions and policies."], LISTS],
  users: [
    ["Tags", "What a user may see and do on this page. AMQP needs permissions alone."],
    ["No password", "Logs in by a certificate, or not at all."],
    ...RIGHTS,
  ],
  permissions: RIGHTS,
  policies: [
    ["Priority", "Of several policies that match a name the one with the highest applies."],
    ["Definition", "Arguments of queues and exchanges, without x- before their names."],
  ],
  limits: [["Limits", "The most connections, channels or queues. 0: none; without a limit: any number."]],
  definitions: [["Definitions", "Users, virtual hosts, permissions, policies, queues, exchanges and bindings, without messages."]],
  backups: [["Backup", "A copy of definitions and durable messages. Messages that are confirmed later are not in it."]],
  tracing: [["Filter", "publish.EXCHANGE or deliver.QUEUE; * stands for one word, # for any number of them."]],
  rehearsal: [["Finding", "A thing that a later RabbitMQ does differently for a client. Remedy: the change that suits both."]],
  "event-log": [["Segment", "A file of events. Boot: the number of the broker's start that has written it."]],
};
