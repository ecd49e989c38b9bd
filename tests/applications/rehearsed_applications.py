"""Small applications of the rehearsal's tests: each has a pattern that RabbitMQ 4.3 treats differently, or none.

A function is given a URL, and uses a connection with its own name. Each pattern was run against RabbitMQ 4.3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

DELIVERIES_MAX = 40
"""A worker gives up after as many deliveries: some patterns have no end."""
QUORUM = {"x-queue-type": "quorum"}
QUIET_SECONDS = 0.1

Application = Callable[[str], None]


@contextmanager
def connected(url: str, name: str, **more: Any) -> Iterator[BlockingConnection]:
    """A connection with a name."""
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    for field, value in more.items():
        setattr(parameters, field, value)
    with pika.BlockingConnection(parameters) as connection:
        yield connection


def queue(channel: BlockingChannel, name: str, **arguments: Any) -> str:
    """Declare a durable queue; underscores of arguments stand for hyphens."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments=given)
    return name


def publish(channel: BlockingChannel, key: str, **properties: Any) -> None:
    """Publish a message to a queue."""
    channel.basic_publish("", key, b"{}", pika.BasicProperties(**properties))


def work(channel: BlockingChannel, name: str, handle: Callable[[Any, Any], None]) -> int:
    """Handle messages until there are none for a moment, or too many; return their number."""
    handled = 0
    for method, properties, _ in channel.consume(name, inactivity_timeout=QUIET_SECONDS):
        if method is None or handled >= DELIVERIES_MAX:
            break
        handled += 1
        handle(method, properties)
    channel.cancel()
    return handled


# Patterns that 4.3 treats differently


def celery_control(url: str) -> None:
    """Celery and kombu before 5.7 declare their control queues so (kombu#2237, celery#10287)."""
    with connected(url, "celery-control") as connection:
        channel = connection.channel()
        channel.queue_declare("celery@host.celery.pidbox", auto_delete=True, arguments={"x-message-ttl": 300000})


def celery_prefetch(url: str) -> None:
    """Celery limits a channel before it consumes, and raises the limit for each task with an ETA."""
    with connected(url, "celery-prefetch") as connection:
        channel = connection.channel()
        queue(channel, "celery")
        channel.basic_qos(prefetch_count=4, global_qos=True)
        channel.basic_consume("celery", lambda *_: None)
        channel.basic_qos(prefetch_count=5, global_qos=True)


def shared_prefetch(url: str) -> None:
    """Two consumers share the limit of their channel."""
    with connected(url, "shared-prefetch") as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1, global_qos=True)
        for name in ("shared-1", "shared-2"):
            channel.basic_consume(queue(channel, name), lambda *_: None)


def spring_poison(url: str) -> None:
    """Spring returns a message whose listener fails by basic.nack; the delivery limit was to end that."""
    with connected(url, "spring-poison") as connection:
        channel = connection.channel()
        queue(channel, "poison", delivery_limit=3, dead_letter_exchange="", dead_letter_routing_key="dead", **TYPE)
        queue(channel, "dead")
        publish(channel, "poison")
        work(channel, "poison", lambda method, _: channel.basic_nack(method.delivery_tag, requeue=True))


def poison_without_a_limit(url: str) -> None:
    """The same without a limit: endless with 3.13, an end with 4.2, endless and in front of all others with 4.3."""
    with connected(url, "unlimited-poison") as connection:
        channel = connection.channel()
        queue(channel, "unlimited", **TYPE)
        publish(channel, "unlimited")
        work(channel, "unlimited", lambda method, _: channel.basic_nack(method.delivery_tag, requeue=True))


def rejected_without_a_limit(url: str) -> None:
    """A worker rejects a message until it can be handled, at the 25th time."""
    with connected(url, "patient") as connection:
        channel, seen = connection.channel(), []
        queue(channel, "patient", **TYPE)
        publish(channel, "patient")

        def handle(method: Any, _: Any) -> None:
            seen.append(method)
            if len(seen) < 25:
                channel.basic_reject(method.delivery_tag, requeue=True)
            else:
                channel.basic_ack(method.delivery_tag)

        work(channel, "patient", handle)


def returned_behind_others(url: str) -> None:
    """A worker returns a message and expects the others first."""
    with connected(url, "polite") as connection:
        channel = connection.channel()
        queue(channel, "polite", **TYPE)
        channel.basic_qos(prefetch_count=1)
        for _ in range(3):
            publish(channel, "polite")
        first, _, _ = channel.basic_get("polite")
        channel.basic_nack(first.delivery_tag, requeue=True)
        work(channel, "polite", lambda method, _: channel.basic_ack(method.delivery_tag))


def priorities(url: str) -> None:
    """Messages with priorities go to a quorum queue, which has ignored them until now."""
    with connected(url, "priorities") as connection:
        channel = connection.channel()
        queue(channel, "prioritized", **TYPE)
        publish(channel, "prioritized")
        publish(channel, "prioritized", priority=9)


def other_arguments(url: str) -> None:
    """An application redeclares its queue with another consumer timeout, which 3.13 does not compare."""
    with connected(url, "redeclares") as connection:
        channel = connection.channel()
        queue(channel, "timed", consumer_timeout=60_000, **TYPE)
        queue(channel, "timed", consumer_timeout=90_000, **TYPE)


def old_arguments(url: str) -> None:
    """A consumer timeout of a classic queue, the first version of its storage, and the old locator."""
    with connected(url, "old-arguments") as connection:
        channel = connection.channel()
        queue(channel, "timed-classic", consumer_timeout=60_000)
        queue(channel, "version-1", queue_version=1)
        queue(channel, "located", queue_master_locator="min-masters")


def dramatiq_timeout(url: str) -> None:
    """Dramatiq holds delayed messages beyond the time to acknowledge, set for one consumer (dramatiq#869, #871)."""
    with connected(url, "dramatiq") as connection:
        channel = connection.channel()
        queue(channel, "default.DQ")
        channel.basic_consume("default.DQ", lambda *_: None, arguments={"x-consumer-timeout": 3_600_000})


def published_deaths(url: str) -> None:
    """A worker publishes a failed message again with its headers, and counts on x-death."""
    with connected(url, "x-death") as connection:
        channel = connection.channel()
        queue(channel, "tried", dead_letter_exchange="", dead_letter_routing_key="tried-later")
        queue(channel, "tried-later")
        deaths = [{"queue": "tried", "reason": "rejected", "count": 3, "exchange": "", "routing-keys": ["tried"]}]
        publish(channel, "tried", headers={"x-death": deaths})
        work(channel, "tried", lambda method, _: channel.basic_reject(method.delivery_tag, requeue=False))


def wildcards(url: str) -> None:
    """A binding key with three words #."""
    with connected(url, "wildcards") as connection:
        channel = connection.channel()
        channel.queue_bind(queue(channel, "all-logs"), "amq.topic", "#.error.#.disk.#")


def small_frames(url: str) -> None:
    """A client that asks for small frames, as amqplib for Node did."""
    with connected(url, "small-frames", frame_max=4096):
        pass


def takeover(url: str) -> None:
    """A second consumer of a single active one has a higher priority."""
    with connected(url, "takeover") as connection:
        channel = connection.channel()
        queue(channel, "single", single_active_consumer=True, **TYPE)
        channel.basic_consume("single", lambda *_: None)
        channel.basic_consume("single", lambda *_: None, arguments={"x-priority": 5})


def lost_reply(url: str) -> None:
    """A server answers a client that has gone, and wants the answer back."""
    with connected(url, "lost-reply") as connection:
        channel, asking = connection.channel(), connection.channel()
        queue(channel, "requests")
        asking.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
        asking.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        _, properties, _ = channel.basic_get("requests", auto_ack=True)
        asking.close()
        channel.basic_publish("", properties.reply_to, b"!", mandatory=True)
        connection.process_data_events(QUIET_SECONDS)


TYPE = {"queue_type": "quorum"}

BROKEN: dict[Application, set[str]] = {
    celery_control: {"transient-queue"},
    celery_prefetch: {"global-qos-flag", "global-qos"},
    shared_prefetch: {"global-qos-flag", "global-qos"},
    spring_poison: {"endless-returns", "delivery-count"},
    poison_without_a_limit: {"endless-returns", "delivery-count"},
    rejected_without_a_limit: {"delivery-limit"},
    returned_behind_others: {"return-order", "delivery-count"},
    priorities: {"priority-order"},
    other_arguments: {"redeclaration"},
    old_arguments: {"queue-argument", "master-locator"},
    dramatiq_timeout: {"consumer-argument"},
    published_deaths: {"published-deaths"},
    wildcards: {"topic-wildcards"},
    small_frames: {"frame-size"},
    takeover: {"consumer-takeover"},
    lost_reply: {"mandatory-reply"},
}
"""The rules that each application meets on its way from 3.13 to 4.3."""


# Healthy ones


def work_queue(url: str) -> None:
    """A quorum queue; what fails is rejected to a dead letter queue."""
    with connected(url, "work-queue") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue(channel, "tasks", dead_letter_exchange="", dead_letter_routing_key="failed", **TYPE)
        queue(channel, "failed", **TYPE)
        channel.basic_qos(prefetch_count=10)
        for _ in range(5):
            publish(channel, "tasks", delivery_mode=2)

        def handle(method: Any, _: Any) -> None:
            if method.delivery_tag == 3:
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)

        work(channel, "tasks", handle)


def events(url: str) -> None:
    """A topic exchange, exclusive queues of subscribers, a stream."""
    with connected(url, "events") as connection:
        channel = connection.channel()
        channel.exchange_declare("events", "topic", durable=True)
        own = channel.queue_declare("", exclusive=True, auto_delete=True).method.queue
        channel.queue_bind(own, "events", "order.#")
        queue(channel, "audit", queue_type="stream", max_length_bytes=1_000_000)
        channel.queue_bind("audit", "events", "#")
        channel.basic_publish("events", "order.made", b"{}")
        work(channel, own, lambda method, _: channel.basic_ack(method.delivery_tag))


def requests(url: str) -> None:
    """Requests with direct replies, a classic queue with priorities, retries by a time to live, basic.nack."""
    with connected(url, "requests") as connection:
        channel = connection.channel()
        queue(channel, "rpc", max_priority=5)
        queue(channel, "later", message_ttl=1, dead_letter_exchange="", dead_letter_routing_key="rpc")
        replies: list[bytes] = []
        channel.basic_consume("amq.rabbitmq.reply-to", lambda *got: replies.append(got[3]), auto_ack=True)
        publish(channel, "rpc", reply_to="amq.rabbitmq.reply-to", priority=3)
        publish(channel, "later")
        method, properties, _ = channel.basic_get("rpc")
        channel.basic_publish("", properties.reply_to, b"!")
        channel.basic_nack(method.delivery_tag, requeue=True)
        while not replies:
            connection.process_data_events(QUIET_SECONDS)
        for method, _, _ in channel.consume("rpc", inactivity_timeout=QUIET_SECONDS):
            if method is None:
                break
            channel.basic_ack(method.delivery_tag)


HEALTHY: tuple[Application, ...] = (work_queue, events, requests)
