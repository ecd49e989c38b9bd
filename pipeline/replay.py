"""Replay of selected messages of a dead-letter queue into an exchange; the others stay in the queue.

Messages are fetched over one connection and held there unacknowledged: no other consumer gets them meanwhile. Spark
selects them by a condition. The selected ones are published with confirms, some at a time and in their order, and
acknowledged once confirmed; then the connection closes, and all unacknowledged messages return to their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException

from leveret_spark.amqp.forwarding import forwarded, headers_of
from leveret_spark.amqp.publisher import Outgoing, Publisher
from leveret_spark.amqp.unacked_consumer import LOST, Delivery, UnackedConsumer, failure
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import PREFETCH_MAX, Broker, broker_of, writing_of
from leveret_spark.queues.batch_intake import ready_messages
from leveret_spark.queues.message_columns import ARROW_SCHEMA, SCHEMA, record_batch
from pipeline.dead_letters import with_deaths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELD_BYTES = 512 << 20
"""Bytes of bodies that are held at most; further messages are not looked at."""

AT_A_TIME = 500
"""Messages published before the confirmed ones are acknowledged: at most this many are duplicates after a kill."""

HISTORY = ("x-death", "x-first-death-", "x-last-death-")
"""Prefixes of headers that tell the deaths of a message."""

NEVER_SENT = {"CC", "x-leveret-message-id"}
"""Headers that are not sent again: CC would publish further copies, and the stamp is that of another message."""


class ConditionError(ValueError):
    """Raised for a condition that is not valid over these columns."""


FAILURES = (AmqpError, ValueError)
"""Expected errors, beside OSError and those of Spark: the message is shown, not a traceback."""


@dataclass(frozen=True)
class Request:
    """Selection and target of a replay.

    `where` is a condition of Spark SQL over the columns of the source `amqp` and those of `with_deaths`. `exchange` and
    `routing_key` are None for those of the message at its last death; `back`: into the queue in which it died. At most
    `look` messages are fetched, and `limit` replayed. With `is_trial` nothing is published.
    """

    where: str
    exchange: str | None = None
    routing_key: str | None = None
    back: bool = False
    limit: int | None = None
    look: int = PREFETCH_MAX
    keeps_history: bool = True
    is_trial: bool = False


@dataclass
class Replayed:
    """Counts of a replay. `selected`: those that meet the condition and have a target, by exchange and key."""

    ready: int = 0
    looked: int = 0
    selected: Counter[tuple[str, str]] = field(default_factory=Counter)
    homeless: int = 0
    """Messages that meet the condition, without an x-death that names a target."""
    replayed: int = 0
    not_taken: int = 0
    """Messages that were returned or nacked, and stay in the queue."""


class DeadLetter(NamedTuple):
    """A message to be replayed, and its delivery."""

    delivery: Delivery
    outgoing: Outgoing


def replay(spark: SparkSession, options: Mapping[str, str], queue: str, request: Request) -> Replayed:
    """Replay some of a queue's messages, at the broker that the options of the source `amqp` name.

    Raises ConditionError; AmqpError if the broker refuses or the connection is lost: unacknowledged messages stay in
    the queue, and up to AT_A_TIME of these may have been published.
    """
    try:
        with_deaths(spark.createDataFrame([], SCHEMA)).where(request.where)  # raises before any message is held
    except AnalysisException as error:
        said = str(error).partition(" SQLSTATE")[0].strip()  # a syntax error begins with an empty line
        raise ConditionError(f"--where: {said.splitlines()[0]}") from error
    broker, done = broker_of(options), Replayed()
    done.ready = ready_messages(broker, queue)
    look = min(done.ready, request.look, PREFETCH_MAX)
    if look == 0:
        return done
    try:
        with UnackedConsumer(broker, queue, "replays", prefetch=look) as consumer:
            held = consumer.gather(look, HELD_BYTES, float("inf"), lambda _: consumer.is_empty())
            consumer.take_only(0)
            done.looked = len(held)
            chosen = consumer.meanwhile(partial(_chosen, spark, queue, held, request.where)) if held else set()
            dead_letters = _dead_letters([each for each in held if each.tag in chosen], request, broker, done)
            if not request.is_trial:
                _send(consumer, broker, dead_letters, done)
    except LOST as error:
        raise failure(broker, queue, error) from None
    return done


def _chosen(spark: SparkSession, queue: str, held: list[Delivery], where: str) -> set[int]:
    batch = record_batch([delivery.message for delivery in held], queue)
    rows = spark.createDataFrame(pa.Table.from_batches([batch], ARROW_SCHEMA), SCHEMA)
    return {row.delivery_tag for row in with_deaths(rows).where(where).select("delivery_tag").collect()}


def _dead_letters(chosen: list[Delivery], request: Request, broker: Broker, done: Replayed) -> list[DeadLetter]:
    dead_letters: list[DeadLetter] = []
    for delivery in chosen:
        if request.limit is not None and len(dead_letters) == request.limit:
            break
        headers = headers_of(delivery.message)
        place = _place(headers, request)
        if place is None:
            done.homeless += 1
            continue
        done.selected[place] += 1
        kept = {name: value for name, value in headers.items() if _is_sent(name, request.keeps_history)}
        dead_letters.append(DeadLetter(delivery, forwarded(delivery.message, *place, kept, broker.login.user)))
    return dead_letters


def _is_sent(header: str, keeps_history: bool) -> bool:
    return header not in NEVER_SENT and (keeps_history or not str(header).startswith(HISTORY))


def _place(headers: Mapping[str, Any], request: Request) -> tuple[str, str] | None:
    """Return exchange and routing key; None if the message has no death to take them from."""
    death = _last_death(headers)
    if request.back:
        queue = death.get("queue")
        return ("", queue) if isinstance(queue, str) else None
    keys = death.get("routing-keys")
    exchange = death.get("exchange") if request.exchange is None else request.exchange
    key = (keys[0] if isinstance(keys, list) and keys else None) if request.routing_key is None else request.routing_key
    return (exchange, key) if isinstance(exchange, str) and isinstance(key, str) else None


def _last_death(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    deaths = headers.get("x-death")
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict):
        return deaths[0]
    return {}


def _send(consumer: UnackedConsumer, broker: Broker, dead_letters: list[DeadLetter], done: Replayed) -> None:
    """Publish in order, AT_A_TIME messages at a time, and acknowledge the confirmed ones of these."""
    taken: set[int] = set()

    def on_outcome(message: Outgoing, is_well: bool) -> None:
        if is_well:
            taken.add(id(message))

    with Publisher(broker, writing_of({}), on_outcome) as publisher:
        for at in range(0, len(dead_letters), AT_A_TIME):
            some = dead_letters[at : at + AT_A_TIME]
            consumer.meanwhile(partial(_publish, publisher, some))
            well = [dead_letter.delivery.tag for dead_letter in some if id(dead_letter.outgoing) in taken]
            consumer.acknowledge(well)
            done.replayed += len(well)
            done.not_taken += len(some) - len(well)


def _publish(publisher: Publisher, dead_letters: list[DeadLetter]) -> None:
    for dead_letter in dead_letters:
        publisher.publish(dead_letter.outgoing)
    publisher.finish()
