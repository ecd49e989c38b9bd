"""Scripts of traffic and what each makes the counters say, as RabbitMQ 3.10.8 does where no comment says otherwise."""

from __future__ import annotations

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

Counts = dict[str, int]


class Step(NamedTuple):
    """What is sent on channel 1, and how many answers are awaited then; a confirm of several counts so many."""

    data: bytes
    answers: int


def do(*sent: Method, answers: int | None = None) -> Step:
    """Methods, each with one answer."""
    return Step(method_frames(1, *sent), len(sent) if answers is None else answers)


def say(*sent: Method) -> Step:
    """Methods without an answer."""
    return do(*sent, answers=0)


def put(key: str, count: int = 1, *, exchange: str = "", answers: int = 0, mandatory: bool = False) -> Step:
    """So many publishes, with so many answers: confirms, and returns."""
    return Step(publish_frames(b"body", exchange=exchange, key=key, mandatory=mandatory) * count, answers)


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
    queue_bind("q", "fan"),
    queue_bind("other", "fan"),
    exchange_bind("fan", "outer"),
)
"""Declared before each script."""


class Script(NamedTuple):
    """Steps, and what is counted then: of the channel, of queues and exchanges by name; all else stays at 0.

    `unlike` is what RabbitMQ 3.10.8 counts otherwise.
    """

    steps: tuple[Step, ...]
    channel: Counts
    queues: dict[str, Counts]
    exchanges: dict[str, Counts]
    unlike: dict[str, Counts] = {}


CONFIRMS = do(ConfirmSelect(False))

SCRIPTS = {
    "publish": Script(
        (put("q", 3),),
        {"publish": 3, "routed": 3},
        {"q": {"publish": 3}},
        {"": {"publish_in": 3, "publish_out": 3}},
    ),
    "confirm, to no queue as well": Script(
        (CONFIRMS, put("q", 2, answers=2), put("nowhere", answers=1), put("nowhere", mandatory=True, answers=2)),
        {"publish": 4, "publish_confirmed": 4, "confirm": 4, "routed": 2, "drop_unroutable": 1, "return_unroutable": 1},
        {"q": {"publish": 2}},
        {"": {"publish_in": 4, "publish_out": 2}},
        unlike={"": {"publish_out": 4}},
    ),
    "refused by a full queue": Script(
        (CONFIRMS, put("short", 3, answers=3)),
        {"publish": 3, "publish_confirmed": 3, "confirm": 1, "routed": 3},
        {"short": {"publish": 3}},
        {"": {"publish_in": 3, "publish_out": 3}},
    ),
    "to two queues by a binding between exchanges": Script(
        (put("", exchange="outer"),),
        {"publish": 1, "routed": 2},
        {"q": {"publish": 1}, "other": {"publish": 1}},
        {"outer": {"publish_in": 1, "publish_out": 2}},
    ),
    "by an alternate exchange": Script(
        (put("x", exchange="misses"),),
        {"publish": 1, "routed": 2},
        {"q": {"publish": 1}, "other": {"publish": 1}},
        {"misses": {"publish_in": 1, "publish_out": 2}},
    ),
    "get": Script(
        (put("q", 2), do(get("q"), get("q", no_ack=True), get("q")), say(ack(1))),
        {"publish": 2, "routed": 2, "get": 1, "get_no_ack": 1, "get_empty": 1, "ack": 1},
        {"q": {"publish": 2, "get": 1, "get_no_ack": 1, "get_empty": 1, "ack": 1}},
        {"": {"publish_in": 2, "publish_out": 2}},
    ),
    "deliver, multiple ack": Script(
        (put("q", 5), do(consume("q", "c"), answers=6), say(ack(3, multiple=True), ack(4))),
        {"publish": 5, "routed": 5, "deliver": 5, "ack": 4},
        {"q": {"publish": 5, "deliver": 5, "ack": 4}},
        {"": {"publish_in": 5, "publish_out": 5}},
    ),
    "deliver without acknowledgement": Script(
        (put("q", 3), do(consume("q", "c", no_ack=True), answers=4)),
        {"publish": 3, "routed": 3, "deliver_no_ack": 3},
        {"q": {"publish": 3, "deliver_no_ack": 3}},
        {"": {"publish_in": 3, "publish_out": 3}},
    ),
    "given back and got again": Script(
        (
            put("q", 2),
            do(get("q"), get("q")),
            say(nack(2, multiple=True)),
            do(get("q"), get("q", no_ack=True)),
            say(BasicReject(3, requeue=True)),
            do(consume("q", "c"), answers=2),
        ),
        {"publish": 2, "routed": 2, "get": 3, "get_no_ack": 1, "deliver": 1, "redeliver": 3},
        {"q": {"publish": 2, "get": 3, "get_no_ack": 1, "deliver": 1, "redeliver": 3}},
        {"": {"publish_in": 2, "publish_out": 2}},
    ),
    "rejected, to a dead-letter queue": Script(
        (
            put("dying", 2),
            do(get("dying"), get("dying")),
            say(BasicReject(1, requeue=False), nack(2, requeue=False)),
            do(get("dead")),
            say(ack(3)),
        ),
        {"publish": 2, "routed": 2, "get": 3, "ack": 1},
        {"dying": {"publish": 2, "get": 2, "rejected": 2}, "dead": {"get": 1, "ack": 1}},
        {"": {"publish_in": 2, "publish_out": 2}},
    ),
    "a transaction that is not committed": Script(
        (do(TxSelect()), put("q", 2), do(TxRollback()), put("q")),
        {},
        {},
        {},
    ),
    "transactions": Script(
        (
            do(TxSelect()),
            put("q", 2),
            put("nowhere"),
            do(TxCommit()),
            do(get("q"), get("q")),
            say(ack(1)),
            do(TxCommit()),
            say(ack(2)),
        ),
        {"publish": 3, "routed": 2, "drop_unroutable": 1, "get": 2, "ack": 1},
        {"q": {"publish": 2, "get": 2, "ack": 1}},
        {"": {"publish_in": 3, "publish_out": 2}},
        unlike={"": {"publish_out": 3}},
    ),
    "priorities": Script(
        (put("levels", 2), do(consume("levels", "c"), answers=3), say(ack(0, multiple=True))),
        {"publish": 2, "routed": 2, "deliver": 2, "ack": 2},
        {"levels": {"publish": 2, "deliver": 2, "ack": 2}},
        {"": {"publish_in": 2, "publish_out": 2}},
    ),
    "quorum, to the limit of deliveries": Script(
        (
            CONFIRMS,
            put("quorum", 2, answers=2),
            do(get("quorum")),
            say(nack(1)),
            do(get("quorum"), get("quorum")),
            say(nack(2), ack(3)),
        ),
        {"publish": 2, "publish_confirmed": 2, "confirm": 2, "routed": 2, "get": 3, "redeliver": 1, "ack": 1},
        {"quorum": {"publish": 2, "get": 3, "redeliver": 1, "ack": 1, "delivery_limit": 1}},
        {"": {"publish_in": 2, "publish_out": 2}},
    ),
    "stream": Script(
        (
            CONFIRMS,
            put("stream", 3, answers=3),
            do(prefetch(10)),
            do(consume("stream", "c", arguments={"x-stream-offset": "first"}), answers=4),
            say(ack(2, multiple=True)),
        ),
        {"publish": 3, "publish_confirmed": 3, "confirm": 3, "routed": 3, "deliver": 3, "ack": 2},
        {"stream": {"publish": 3, "deliver": 3, "ack": 2}},
        {"": {"publish_in": 3, "publish_out": 3}},
    ),
}


class Answers:
    """How many answers have come: a confirm of several counts for all that it covers."""

    def __init__(self) -> None:
        self._others = 0
        self._confirmed = set[int]()

    def add(self, item: Item) -> None:
        """One more item has come."""
        if isinstance(item, BasicAck | BasicNack):
            self._confirmed |= set(range(1, item.delivery_tag + 1)) if item.multiple else {item.delivery_tag}
        else:
            self._others += 1

    @property
    def count(self) -> int:
        """How many answers that makes."""
        return self._others + len(self._confirmed)
