"""Scripts of traffic and what each makes the counters say, as RabbitMQ 3.10.8 does where nothing else is said.

A step is a verb, its arguments, and after a colon the number of answers to await: a confirm of several counts for each.
Then what is counted of the channel, of queues, and of the exchange that was published to (publish_in, publish_out, and
RabbitMQ's publish_out where that is another). All else stays at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.wire.method import Method
from broker.wire.methods import BasicAck, BasicNack, BasicReject, ConfirmSelect, TxCommit, TxRollback, TxSelect
from harness.clients.amqp_peer import Item, method_frames, publish_frames
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_bind,
    exchange_declare,
    get,
    nack,
    prefetch,
    queue_bind,
    queue_declare,
)

TRAFFIC = """
publish
    put q 3
    publish 3 routed 3 | q publish 3 | default 3 3

confirm, to no queue as well
    confirm :1, put q 2 :2, put nowhere :1, mandatory nowhere :2
    publish 4 publish_confirmed 4 confirm 4 routed 2 drop_unroutable 1 return_unroutable 1 | q publish 2 | default 4 2 4

refused by a full queue
    confirm :1, put short 3 :3
    publish 3 publish_confirmed 3 confirm 1 routed 3 | short publish 3 | default 3 3

to two queues by a binding between exchanges
    put q 1 outer
    publish 1 routed 2 | q publish 1, other publish 1 | outer 1 2

by an alternate exchange
    put x 1 misses
    publish 1 routed 2 | q publish 1, other publish 1 | misses 1 2

get
    put q 2, get q :1, get_no_ack q :1, get q :1, ack 1
    publish 2 routed 2 get 1 get_no_ack 1 get_empty 1 ack 1
    | q publish 2 get 1 get_no_ack 1 get_empty 1 ack 1 | default 2 2

deliver, multiple ack
    put q 5, consume q :6, ack_to 3, ack 4
    publish 5 routed 5 deliver 5 ack 4 | q publish 5 deliver 5 ack 4 | default 5 5

deliver without acknowledgement
    put q 3, consume_no_ack q :4
    publish 3 routed 3 deliver_no_ack 3 | q publish 3 deliver_no_ack 3 | default 3 3

given back and got again
    put q 2, get q :1, get q :1, requeue_to 2, get q :1, get_no_ack q :1, requeue 3, consume q :2
    publish 2 routed 2 get 3 get_no_ack 1 deliver 1 redeliver 3
    | q publish 2 get 3 get_no_ack 1 deliver 1 redeliver 3 | default 2 2

rejected, to a dead-letter queue
    put dying 2, get dying :1, get dying :1, reject 1, reject 2, get dead :1, ack 3
    publish 2 routed 2 get 3 ack 1 | dying publish 2 get 2 rejected 2, dead get 1 ack 1 | default 2 2

a transaction that is not committed
    transaction :1, put q 2, rollback :1, put q 1
    | |

transactions
    transaction :1, put q 2, put nowhere, commit :1, get q :1, get q :1, ack 1, commit :1, ack 2
    publish 3 routed 2 drop_unroutable 1 get 2 ack 1 | q publish 2 get 2 ack 1 | default 3 2 3

priorities
    put levels 2, consume levels :3, ack_to 0
    publish 2 routed 2 deliver 2 ack 2 | levels publish 2 deliver 2 ack 2 | default 2 2

quorum, to the limit of deliveries
    confirm :1, put quorum 2 :2, get quorum :1, requeue 1, get quorum :1, get quorum :1, requeue 2, ack 3
    publish 2 publish_confirmed 2 confirm 2 routed 2 get 3 redeliver 1 ack 1
    | quorum publish 2 get 3 redeliver 1 ack 1 delivery_limit 1 | default 2 2

stream
    confirm :1, put stream 3 :3, prefetch 10 :1, follow stream :4, ack_to 2
    publish 3 publish_confirmed 3 confirm 3 routed 3 deliver 3 ack 2 | stream publish 3 deliver 3 ack 2 | default 3 3
"""

TOPOLOGY = (
    *(queue_declare(name, durable=True) for name in ("q", "other", "dead")),
    queue_declare("dying", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
    queue_declare("short", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}),
    queue_declare("levels", durable=True, arguments={"x-max-priority": 5}),
    queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 1}),
    queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"}),
    exchange_declare("fan", "fanout"),
    exchange_declare("outer", "fanout"),
    exchange_declare("misses", "direct", arguments={"alternate-exchange": "fan"}),
    *(queue_bind(queue, "fan") for queue in ("q", "other")),
    exchange_bind("fan", "outer"),
)
"""Declared before each script."""

VERBS: dict[str, Callable[..., Method]] = {
    "confirm": lambda: ConfirmSelect(False),
    "transaction": TxSelect,
    "commit": TxCommit,
    "rollback": TxRollback,
    "prefetch": lambda count: prefetch(int(count)),
    "get": get,
    "get_no_ack": lambda queue: get(queue, no_ack=True),
    "consume": lambda queue: consume(queue, "c"),
    "consume_no_ack": lambda queue: consume(queue, "c", no_ack=True),
    "follow": lambda queue: consume(queue, "c", arguments={"x-stream-offset": "first"}),
    "ack": lambda tag: ack(int(tag)),
    "ack_to": lambda tag: ack(int(tag), multiple=True),
    "requeue": lambda tag: BasicReject(int(tag), True),
    "requeue_to": lambda tag: nack(int(tag), multiple=True),
    "reject": lambda tag: BasicReject(int(tag), False),
}

Counts = dict[str, int]


class Step(NamedTuple):
    """Input on channel 1, and the number of answers to await then."""

    data: bytes
    answers: int


class Script(NamedTuple):
    """One of those above; `exchange` is empty where nothing was published."""

    steps: list[Step]
    channel: Counts
    queues: dict[str, Counts]
    exchange: list[str]


def do(method: Method, answers: int = 1) -> Step:
    return Step(method_frames(1, method), answers)


def _step(text: str) -> Step:
    words, _, answers = text.partition(" :")
    verb, *arguments = words.split()
    if verb not in ("put", "mandatory"):
        return do(VERBS[verb](*arguments), int(answers or 0))
    key, count, exchange = [*arguments, *["", "1", ""][len(arguments) :]]
    frames = publish_frames(b"body", exchange=exchange, key=key, mandatory=verb == "mandatory")
    return Step(frames * int(count), int(answers or 0))


def _counts(words: list[str]) -> Counts:
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _scripts() -> Iterator[tuple[str, Script]]:
    for paragraph in TRAFFIC.strip().split("\n\n"):
        name, steps, *counted = paragraph.split("\n")
        channel, queues, exchange = "".join(counted).split("|")
        of_queues = {words[0]: _counts(words[1:]) for queue in queues.split(",") if (words := queue.split())}
        yield name, Script([*map(_step, steps.split(", "))], _counts(channel.split()), of_queues, exchange.split())


SCRIPTS = dict(_scripts())


class Answers:
    """Count of answers: a confirm of several counts for all that it covers."""

    def __init__(self) -> None:
        self._others = 0
        self._confirmed = set[int]()

    def add(self, item: Item) -> None:
        if isinstance(item, BasicAck | BasicNack):
            self._confirmed |= set(range(1, item.delivery_tag + 1)) if item.multiple else {item.delivery_tag}
        else:
            self._others += 1

    @property
    def count(self) -> int:
        return self._others + len(self._confirmed)
