"""The queues and exchanges that the workload uses, and how its messages say who they are.

A message is known by its number, in which the client that published it is contained. Numbers of one client ascend.
"""

from __future__ import annotations

from typing import Any

from broker.wire.method import Method
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare

CLIENTS = 8
"""More than there are; a message's number modulo this is its client."""

WORK, RANKED, QUORUM, DEAD, COPY, LOG, FETCHED = "work", "ranked", "quorum", "dead", "copy", "log", "fetched"
BOTH, DELAYING, LATE = "both", "delaying", "late"
FADING, FADED = "fading", "faded"
"""A queue whose messages hardly live, and the queue of their dead letters."""
SHORT, PUSHED = "short", "pushed"
"""A queue that holds few messages, and the queue of those pushed out of it."""
WAITING_DEAD_LETTERS = "dead letters that wait in quorum"
TX_BOTH, TX_A, TX_B, TX_WORK, TX_DEAD = "tx both", "tx a", "tx b", "tx work", "tx dead"

READER = "reader"
"""The tag of whoever reads the stream LOG."""

PRIORITY_MAX = 3
UNTOUCHED = (TX_A, TX_B)
"""Queues that are published to in transactions, and that nobody takes anything from."""

KEEPS_ALL = (LOG, QUORUM)
"""Queues that keep what was published as transient."""

MOVES = {FADED: FADING, PUSHED: SHORT}
"""Places of messages that move by themselves, and their origins: the two count as one place, in which a message is
once."""

DEAD_LETTER_QUEUES = {QUORUM: WAITING_DEAD_LETTERS, TX_WORK: TX_DEAD}
"""Dead-letter queues other than DEAD."""

TARGETS = {BOTH: (WORK, COPY, LOG), DELAYING: (LATE,), TX_BOTH: (TX_A, TX_B)}
"""The queues behind each exchange. DELAYING holds its messages for a while: they count as the queue's."""

AT_LEAST_ONCE = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 1000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "nowhere",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
"""Arguments of a queue whose dead letters stay with it, because nobody takes them."""

TIME_TO_LIVE_MILLISECONDS = 15
SHORT_MAX, FULL_MAX = 3, 4

WINDOW_MESSAGES, WINDOW_BYTES = 10, 20_000
JOURNAL_BYTES = 16 << 10
SMALL_WINDOWS = f"""\
[limits]
queue_window_messages = {WINDOW_MESSAGES}
queue_window_bytes = {WINDOW_BYTES}
[store]
journal_bytes = {JOURNAL_BYTES}
"""
"""Queues hold more than a few messages in memory only in part, the journal at most four batches."""


def kept(client: int) -> str:
    """The queue that nobody consumes: the confirm of a message in it says that everything before it is on disk."""
    return f"kept {client}"


def purged(client: int) -> str:
    """The queue that its client purges; it has priorities."""
    return f"purged {client}"


def full(client: int) -> str:
    """The queue that refuses messages until its client purges it."""
    return f"full {client}"


def refuses(queue: str) -> bool:
    """True if a queue may refuse a publish."""
    return queue.startswith("full")


def prioritized(queue: str) -> bool:
    """True if a queue has priorities."""
    return queue == RANKED or queue.startswith("purged")


def _dead_letters_to(queue: str) -> dict[str, Any]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


ARGUMENTS: dict[str, dict[str, Any]] = {
    **{name: {} for name in (DEAD, COPY, LATE, FADED, PUSHED, TX_A, TX_B, TX_DEAD)},
    WORK: _dead_letters_to(DEAD),
    FETCHED: _dead_letters_to(DEAD),
    RANKED: {**_dead_letters_to(DEAD), "x-max-priority": PRIORITY_MAX},
    QUORUM: AT_LEAST_ONCE,
    LOG: {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 2000},
    FADING: {**_dead_letters_to(FADED), "x-message-ttl": TIME_TO_LIVE_MILLISECONDS},
    SHORT: {**_dead_letters_to(PUSHED), "x-max-length": SHORT_MAX},
    TX_WORK: _dead_letters_to(TX_DEAD),
}


def declarations(client: int) -> list[Method]:
    """Return declarations of everything that a client needs; things that exist stay."""
    own: dict[str, dict[str, Any]] = {
        kept(client): {},
        purged(client): {"x-max-priority": PRIORITY_MAX},
        full(client): {"x-max-length": FULL_MAX, "x-overflow": "reject-publish"},
    }
    queues = [
        queue_declare(name, durable=True, arguments=arguments) for name, arguments in {**ARGUMENTS, **own}.items()
    ]
    exchanges = [
        exchange_declare(BOTH, "fanout", durable=True),
        exchange_declare(TX_BOTH, "fanout", durable=True),
        exchange_declare(DELAYING, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}),
    ]
    return [
        *queues,
        *exchanges,
        *(queue_bind(queue, exchange) for exchange, queues in TARGETS.items() for queue in queues),
    ]


def body_of(number: int, size: int) -> bytes:
    """A body that says all over which message it is, and of what size."""
    head = b"%d:%d:" % (number, size)
    return (head * (size // len(head) + 1))[: max(size, len(head))]


def number_of(body: bytes) -> int:
    """The message a body belongs to. Raises AssertionError when it is not as it was published."""
    number, size = map(int, body.split(b":", 2)[:2])
    assert body == body_of(number, size), f"message {number} is torn"
    return number


def priority_of(number: int) -> int:
    """The priority a message is published with; some are beyond the highest."""
    return number * 7 % (PRIORITY_MAX + 2)


def place_in(queue: str, number: int) -> tuple[int, int]:
    """Return the order of one client's messages in a queue, as a sort key."""
    return (-min(priority_of(number), PRIORITY_MAX) if prioritized(queue) else 0), number


def dead_letter_queue(queue: str) -> str:
    """Return the queue of messages rejected in a queue."""
    return DEAD_LETTER_QUEUES.get(queue, DEAD)
