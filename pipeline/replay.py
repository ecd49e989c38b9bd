"""Some of the messages of a dead-letter queue back into an exchange, and the others left where they are.

Messages are fetched over one connection and held there, unacknowledged: no other consumer gets them meanwhile. Spark
says which of the rows are meant. Those are published with confirms, some at a time and in their order, and acknowledged
when they are confirmed; in the end the connection closes, and whatever was not acknowledged is in its old place.
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
"""Of bodies. More is not looked at."""

AT_A_TIME = 500
"""Messages that are published before those that were confirmed are acknowledged: so many may be twice after a kill."""

HISTORY = ("x-death", "x-first-death-", "x-last-death-")
"""How headers begin that say how a message died."""

NEVER_SENT = {"CC", "x-leveret-message-id"}
"""Headers that are not sent again: copies for further keys would go out too, and the stamp is another message's."""


class ConditionError(ValueError):
    """The condition means nothing over these columns."""


FAILURES = (AmqpError, ValueError)
"""What may go wrong without anything being wrong with the program, beside OSError and what Spark raises."""


@dataclass(frozen=True)
class Request:
    """What is to be replayed where.

    `where` is a condition of Spark SQL over the columns of the source `amqp` and those of `with_deaths`. `exchange` and
    `routing_key` are None for those that the message had when it died last; `back` is for the queue that it died in.
    At most `look` messages are looked at, and `limit` replayed. With `is_trial` nothing is published.
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
    """What became of it. `selected` counts those that are meant and have a place to go to, by exchange and key."""

    ready: int = 0
    looked: int = 0
    selected: Counter[tuple[str, str]] = field(default_factory=Counter)
    homeless: int = 0
    """Meant, but with no x-death to say where they came from."""
    replayed: int = 0
    not_taken: int = 0
    """Returned or refused; they are where they were."""


class Letter(NamedTuple):
    """A message to be replayed, and the delivery that it came by."""

    delivery: Delivery
    outgoing: Outgoing


def replay(spark: SparkSession, options: Mapping[str, str], queue: str, request: Request) -> Replayed:
    """Replay some of a queue's messages, at the broker that the options of the source `amqp` name.

    Raises ConditionError; AmqpError when the broker refuses, or the connection is lost: what was not acknowledged by
    then is in the queue, and up to AT_A_TIME of these may have been published.
    """
    try:
        with_deaths(spark.createDataFrame([], SCHEMA)).where(request.where)  # complains before anything is held
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
            letters = _letters([each for each in held if each.tag in chosen], request, broker, done)
            if not request.is_trial:
                _send(consumer, broker, letters, done)
    except LOST as error:
        raise failure(broker, queue, error) from None
    return done


def _chosen(spark: SparkSession, queue: str, held: list[Delivery], where: str) -> set[int]:
    batch = record_batch([delivery.message for delivery in held], queue)
    rows = spark.createDataFrame(pa.Table.from_batches([batch], ARROW_SCHEMA), SCHEMA)
    return {row.delivery_tag for row in with_deaths(rows).where(where).select("delivery_tag").collect()}


def _letters(chosen: list[Delivery], request: Request, broker: Broker, done: Replayed) -> list[Letter]:
    letters: list[Letter] = []
    for delivery in chosen:
        if request.limit is not None and len(letters) == request.limit:
            break
        headers = headers_of(delivery.message)
        place = _place(headers, request)
        if place is None:
            done.homeless += 1
            continue
        done.selected[place] += 1
        kept = {name: value for name, value in headers.items() if _is_sent(name, request.keeps_history)}
        letters.append(Letter(delivery, forwarded(delivery.message, *place, kept, broker.login.user)))
    return letters


def _is_sent(header: str, keeps_history: bool) -> bool:
    return header not in NEVER_SENT and (keeps_history or not str(header).startswith(HISTORY))


def _place(headers: Mapping[str, Any], request: Request) -> tuple[str, str] | None:
    """Exchange and routing key; None where the message names no death to take them from."""
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


def _send(consumer: UnackedConsumer, broker: Broker, letters: list[Letter], done: Replayed) -> None:
    """Publish in order; acknowledge what was confirmed, some at a time."""
    taken: set[int] = set()

    def on_outcome(message: Outgoing, is_well: bool) -> None:
        if is_well:
            taken.add(id(message))

    with Publisher(broker, writing_of({}), on_outcome) as publisher:
        for at in range(0, len(letters), AT_A_TIME):
            some = letters[at : at + AT_A_TIME]
            consumer.meanwhile(partial(_publish, publisher, some))
            well = [letter.delivery.tag for letter in some if id(letter.outgoing) in taken]
            consumer.acknowledge(well)
            done.replayed += len(well)
            done.not_taken += len(some) - len(well)


def _publish(publisher: Publisher, letters: list[Letter]) -> None:
    for letter in letters:
        publisher.publish(letter.outgoing)
    publisher.finish()
