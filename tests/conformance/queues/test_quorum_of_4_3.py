"""Quorum queues of RabbitMQ 4.3, as measured on 4.3.6; that, as the reference, is held to the same.

Rows in which only time passes are in tests/unit/queues/test_delayed_retry.py.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from broker.wire.field_tables import from_python, to_python
from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    ConfirmSelect,
    QueuePurge,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE, REFERENCE_HTTP
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import bodies, deliveries, deposit, drain, fetch, ready
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare, queue_delete, reject
from harness.clients.wire_client import Address, Client
from harness.waiting import eventually

SETTINGS = '[identity]\npersonality = "4.3"\n'


class Place(NamedTuple):
    """The addresses of a broker."""

    amqp: Address
    http: Address

    def put_policy(self, name: str, queue: str, definition: dict[str, Any]) -> None:
        """Set a policy for one queue."""
        body = json.dumps({"pattern": f"^{queue}$", "definition": definition, "apply-to": "queues"}).encode()
        path = f"/api/policies/%2F/{name}"
        reply = ask(self.http, path, method="PUT", body=body, content_type="application/json")
        assert reply.status in (201, 204), reply

    def row(self, queue: str) -> dict[str, Any]:
        """Return a queue's row."""
        return dict(json.loads(ask(self.http, f"/api/queues/%2F/{queue}").body))

    def counted(self, queue: str, **counts: int) -> dict[str, Any]:
        """Return a queue's row once it has these counts; RabbitMQ counts now and then."""

        def row() -> dict[str, Any] | None:
            found = self.row(queue)
            return found if all(found.get(name) == count for name, count in counts.items()) else None

        return eventually(row, f"the counts {counts} of {queue}") or {}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if REFERENCE:
        (host, _, port), (http_host, _, http_port) = REFERENCE.rpartition(":"), REFERENCE_HTTP.rpartition(":")
        client = Client.connect((host, int(port)))
        version = to_python(client.peer.server_start.server_properties)["version"]
        client.close()
        if not (http_port and str(version).startswith("4.3")):
            pytest.skip("the reference is no RabbitMQ 4.3 with its API")
        yield Place((host, int(port)), (http_host, int(http_port)))
        return
    process = web_broker(tmp_path_factory.mktemp("quorum"), SETTINGS)
    process.start()
    yield Place(process.address, web_address(process))
    process.stop()


@pytest.fixture
def dial(place: Place) -> Iterator[Callable[[], Client]]:
    """A function that connects another client."""
    clients: list[Client] = []

    def dialled() -> Client:
        clients.append(Client.connect(place.amqp))
        return clients[-1]

    yield dialled
    for client in clients:
        client.close()


@pytest.fixture
def client(dial: Callable[[], Client]) -> Client:
    return dial()


def new(client: Client, kind: str = "quorum", **arguments: Any) -> str:
    """Declare a queue; `max_length=3` is the argument x-max-length."""
    name = f"p-{secrets.token_hex(4)}"
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(queue_declare(name, durable=True, arguments={"x-queue-type": kind, **table}))
    return name


def take(client: Client, queue: str) -> Message:
    """basic.get of a message that is there, or comes back."""

    def got() -> Message | None:
        client.send(get(queue))
        item = client.receive()
        assert isinstance(item, BasicGetEmpty | Message), item
        return item if isinstance(item, Message) else None

    found = eventually(got, f"a message in {queue}")
    assert found is not None
    return found


def counts(message: Message) -> tuple[int | None, int | None]:
    """Return x-acquired-count and x-delivery-count."""
    headers = to_python(message.properties.headers or {})
    return headers.get("x-acquired-count"), headers.get("x-delivery-count")


def carrying(priorities: Sequence[int | None]) -> list[tuple[bytes, BasicProperties]]:
    """Return messages with these priorities, each with its place and priority as body."""
    return [
        (b"%d:%s" % (place, b"none" if priority is None else b"%d" % priority), BasicProperties(priority=priority))
        for place, priority in enumerate(priorities)
    ]


def fill(client: Client, queue: str, priorities: Sequence[int | None]) -> None:
    """Publish messages with these priorities."""
    for body, properties in carrying(priorities):
        deposit(client, body, key=queue, properties=properties)


def priorities_of(found: list[bytes]) -> list[str]:
    return [body.partition(b":")[2].decode() for body in found]


# What is counted


def close_by_an_error(client: Client) -> None:
    client.refusal(queue_declare("amq.nope", passive=True))


WAYS_BACK: dict[str, tuple[Callable[[Client], object], int | None]] = {
    "nack": (lambda client: client.send(nack(1)), None),
    "nack of all": (lambda client: client.send(nack(0, multiple=True)), None),
    "recover": (lambda client: client.ask(BasicRecover(True)), None),
    "reject": (lambda client: client.send(reject(1)), 1),
    "channel closed": (lambda client: client.close_channel(), 1),
    "channel closed by an error": (close_by_an_error, 1),
    "connection closed": (lambda client: client.close(), 1),
    "connection lost": (lambda client: client.socket.close(), 1),
}
"""Returns of a message, and the delivery count after each; the acquired count is 1."""


@pytest.mark.parametrize("way", WAYS_BACK)
def test_returns_are_counted(client: Client, place: Place, way: str) -> None:
    queue, other = new(client), Client.connect(place.amqp)
    deposit(client, b"m", key=queue)
    assert counts(take(other, queue)) == (None, None)
    back, expected = WAYS_BACK[way]
    back(other)
    assert counts(take(client, queue)) == (1, expected)
    other.close()


def test_a_cancelled_consumer_may_return_without_a_count(client: Client) -> None:
    queue = new(client)
    deposit(client, b"m", key=queue)
    client.ask(consume(queue, "t"))
    client.expect_message(BasicDeliver)
    client.ask(BasicCancel("t", False))
    client.send(nack(1))
    assert counts(take(client, queue)) == (1, None)


def test_the_sum_of_returns(client: Client) -> None:
    """And both are 64-bit integers."""
    queue = new(client)
    deposit(client, b"m", key=queue)
    for by in (nack, nack, reject, reject, None, nack):
        tag = take(client, queue).method.delivery_tag
        if by is None:
            client.send(BasicRecover(True))
            client.expect(BasicRecoverOk)
        else:
            client.send(by(tag))
    message = take(client, queue)
    assert counts(message) == (6, 2)
    assert {(message.properties.headers or {})[f"x-{name}-count"].kind for name in ("acquired", "delivery")} == {"l"}


@pytest.mark.parametrize(
    ("arguments", "policy", "deliveries"),
    [
        ({}, {}, 21),
        ({"delivery_limit": 0}, {}, 1),
        ({"delivery_limit": "text"}, {}, 21),
        ({"delivery_limit": 2}, {}, 3),
        ({"delivery_limit": -1}, {}, None),
        ({"delivery_limit": -5}, {}, None),
        ({}, {"delivery-limit": 2}, 3),
        ({}, {"delivery-limit": 0}, 1),
        ({}, {"delivery-limit": -1}, None),
        ({"delivery_limit": 2}, {"delivery-limit": 5}, 3),
        ({"delivery_limit": 5}, {"delivery-limit": 2}, 3),
        ({"delivery_limit": -1}, {"delivery-limit": 2}, 3),
        ({"delivery_limit": 2}, {"delivery-limit": -1}, 3),
    ],
    ids=str,
)
def test_rejections_up_to_the_limit(
    client: Client, place: Place, arguments: dict[str, Any], policy: dict[str, int], deliveries: int | None
) -> None:
    """Then the message is a dead letter."""
    dead = new(client, "classic")
    queue = new(client, dead_letter_exchange="", dead_letter_routing_key=dead, **arguments)
    if policy:
        place.put_policy(f"limit of {queue}".replace(" ", "-"), queue, policy)
        eventually(lambda: place.row(queue).get("effective_policy_definition"), "the policy")
    deposit(client, b"m", key=queue)
    for _ in range(25 if deliveries is None else deliveries):
        client.send(reject(take(client, queue).method.delivery_tag))
    client.close_channel()
    client.open_channel()
    assert take(client, queue if deliveries is None else dead).body == b"m"


@pytest.mark.parametrize("limit", [0, 3])
def test_nacks_are_never_too_many(client: Client, limit: int) -> None:
    queue = new(client, delivery_limit=limit)
    deposit(client, b"m", key=queue)
    for _ in range(40):
        client.send(nack(take(client, queue).method.delivery_tag))
    assert counts(take(client, queue)) == (40, None)


@pytest.mark.parametrize("by", [nack, reject])
def test_a_lower_limit_drops_at_the_next_return(client: Client, place: Place, by: Callable[[int], Method]) -> None:
    """The message is delivered once more; even basic.nack drops it then."""
    queue = new(client)
    deposit(client, b"m", key=queue)
    for _ in range(3):
        client.send(reject(take(client, queue).method.delivery_tag))
    place.put_policy(f"lower-{queue}", queue, {"delivery-limit": 1})
    eventually(lambda: place.row(queue).get("effective_policy_definition"), "the policy")
    message = take(client, queue)
    assert counts(message) == (3, 3)
    client.send(by(message.method.delivery_tag))
    assert drain(client, queue) == []


def test_the_death_of_the_limit(client: Client) -> None:
    dead = new(client, "classic")
    queue = new(client, delivery_limit=0, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue)
    client.send(reject(take(client, queue).method.delivery_tag))
    headers = to_python(take(client, dead).properties.headers or {})
    (death,) = headers["x-death"]
    assert (death["count"], death["reason"], death["queue"]) == (1, "delivery_limit", queue)
    assert death["routing-keys"] == [queue]
    for which in ("first", "last"):
        found = [headers[f"x-{which}-death-{part}"] for part in ("exchange", "queue", "reason")]
        assert found == ["", queue, "delivery_limit"]


def test_dead_letters_are_counted_on_in_quorum_queues_alone(client: Client) -> None:
    """They show the count as both at their first delivery; then the first is that of the queue."""
    target = new(client, delivery_limit=3)
    through = new(client, "classic", dead_letter_exchange="", dead_letter_routing_key=target)
    queue = new(client, dead_letter_exchange="", dead_letter_routing_key=through)
    deposit(client, b"m", key=queue)
    client.send(nack(take(client, queue).method.delivery_tag))
    client.send(reject(take(client, queue).method.delivery_tag, requeue=False))
    message = take(client, through)
    assert counts(message) == (None, None)
    client.send(reject(message.method.delivery_tag, requeue=False))
    seen = []
    for by in (nack, reject, reject):
        message = take(client, target)
        seen.append((counts(message), message.method.redelivered))
        client.send(by(message.method.delivery_tag))
    assert seen == [((2, 2), True), ((1, 2), True), ((2, 3), True)]
    assert drain(client, target) == []


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_dead_letters_that_were_no_failures_have_no_count(client: Client, kind: str) -> None:
    dead = new(client, kind)
    queue = new(client, dead_letter_exchange="", dead_letter_routing_key=dead, message_ttl=30)
    deposit(client, b"m", key=queue)
    message = take(client, dead)
    assert (counts(message), message.method.redelivered) == ((None, None), False)


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_a_rejection_of_a_classic_queue_counts(client: Client, strategy: str) -> None:
    """A quorum queue that dead-letters at least once counts its own, too."""
    target = new(client)
    more = {"dead_letter_strategy": strategy, "overflow": "reject-publish"} if strategy == "at-least-once" else {}
    kind = "quorum" if more else "classic"
    queue = new(client, kind, dead_letter_exchange="", dead_letter_routing_key=target, **more)
    deposit(client, b"m", key=queue)
    client.send(reject(take(client, queue).method.delivery_tag, requeue=False))
    assert counts(take(client, target)) == (1, 1)


def test_a_classic_queue_counts_failures_for_the_next(client: Client) -> None:
    target = new(client)
    queue = new(client, "classic", dead_letter_exchange="", dead_letter_routing_key=target)
    deposit(client, b"m", key=queue)
    client.send(nack(take(client, queue).method.delivery_tag))
    client.send(reject(take(client, queue).method.delivery_tag))
    take(client, queue)
    client.close_channel()
    client.open_channel()
    client.send(reject(take(client, queue).method.delivery_tag, requeue=False))
    assert counts(take(client, target)) == (3, 3)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_counts_of_a_publisher(client: Client, kind: str) -> None:
    """They are delivered unchanged; a quorum queue replaces them by its own, each when it has one."""
    queue = new(client, kind)
    own = from_python({"x-delivery-count": 7, "x-acquired-count": 9})
    deposit(client, b"m", key=queue, properties=BasicProperties(headers=own))
    seen = []
    for by in (nack, reject, nack):
        message = take(client, queue)
        seen.append(counts(message))
        client.send(by(message.method.delivery_tag))
    assert seen == ([(9, 7), (1, 7), (2, 1)] if kind == "quorum" else [(9, 7)] * 3)


# Order


@pytest.mark.parametrize("by", [nack, reject])
@pytest.mark.parametrize("limit", [{}, {"delivery_limit": -1}], ids=str)
def test_returned_messages_are_first_in_the_order_of_their_return(
    client: Client, by: Callable[[int], Method], limit: dict[str, int]
) -> None:
    queue = new(client, **limit)
    deposit(client, b"0", b"1", b"2", b"3", b"4", key=queue)
    tags = [message.method.delivery_tag for message in fetch(client, queue, 3)]
    for place in (2, 0, 1):
        client.send(by(tags[place]))
    assert b"".join(drain(client, queue)) == b"20134"


@pytest.mark.parametrize("way", ["nack of all", "recover", "channel closed"])
def test_messages_returned_together_are_in_the_order_of_delivery(client: Client, place: Place, way: str) -> None:
    queue, other = new(client), Client.connect(place.amqp)
    deposit(client, b"0", b"1", b"2", b"3", b"4", key=queue)
    fetch(other, queue, 3)
    WAYS_BACK[way][0](other)
    eventually(lambda: ready(client, queue) == 5, "all of them ready")
    assert b"".join(drain(client, queue)) == b"01234"
    other.close()


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ((None, 0, 3, 4, 5, 9, 31, 32, 255), "31 32 255 9 5 none 4 3 0"),
        ((None, 0, 4, 5) * 3, "5 5 5 none 4 none 4 none 4 0 0 0"),
        ((0, 9, 9, 0, 9), "9 9 9 0 0"),
    ],
    ids=["levels", "rounds", "two"],
)
def test_priorities(client: Client, published: Sequence[int | None], expected: str) -> None:
    queue = new(client)
    fill(client, queue, published)
    found = drain(client, queue)
    assert priorities_of(found) == expected.split()
    places = [int(body.partition(b":")[0]) for body in found]
    for priority in {*priorities_of(found)}:
        of_one = [place for place, other in zip(places, priorities_of(found), strict=True) if other == priority]
        assert of_one == sorted(of_one)


def test_returned_messages_are_before_higher_priorities(client: Client) -> None:
    queue = new(client)
    for number in range(6):
        deposit(client, b"hi%d" % number, key=queue, properties=BasicProperties(priority=9))
        deposit(client, b"lo%d" % number, key=queue, properties=BasicProperties(priority=1))
    taken = fetch(client, queue, 8)
    assert bodies(taken) == [*(b"hi%d" % number for number in range(6)), b"lo0", b"lo1"]
    for place in (7, 0, 6):
        client.send(reject(taken[place].method.delivery_tag))
    assert drain(client, queue) == [b"lo1", b"hi0", b"lo0", b"lo2", b"lo3", b"lo4", b"lo5"]


def test_a_higher_priority_overtakes_those_that_are_not_out(client: Client) -> None:
    queue = new(client)
    fill(client, queue, (1, 1, 1))
    client.ask(prefetch(2))
    client.ask(consume(queue))
    assert priorities_of(bodies(deliveries(client, 2))) == ["1", "1"]
    fill(client, queue, (9,))
    client.send(ack(1))
    assert priorities_of(bodies(deliveries(client, 1))) == ["9"]


def test_none_overtakes_a_message_that_finds_a_consumer(client: Client) -> None:
    """Published together, while the consumer waits for one message."""
    queue = new(client)
    client.ask(prefetch(1))
    client.ask(consume(queue))
    for body, properties in carrying((1, 9, 5)):
        client.publish(body, key=queue, properties=properties)
    seen = []
    for tag in (1, 2, 3):
        seen += bodies(deliveries(client, 1))
        client.send(ack(tag))
    assert priorities_of(seen) == ["1", "9", "5"]


def test_excess_is_dropped_from_the_head_of_the_highest_priority(client: Client) -> None:
    dead = new(client, "classic")
    queue = new(client, max_length=3, dead_letter_exchange="", dead_letter_routing_key=dead)
    fill(client, queue, (9, 0, 9, 0, 9, 0))
    assert drain(client, queue) == [b"1:0", b"3:0", b"5:0"]
    dropped = [take(client, dead) for _ in range(3)]
    assert bodies(dropped) == [b"0:9", b"2:9", b"4:9"]
    reasons = {to_python(message.properties.headers or {})["x-first-death-reason"] for message in dropped}
    assert reasons == {"maxlen"}


def test_messages_of_lower_priority_expire_in_time(client: Client) -> None:
    dead = new(client, "classic")
    queue = new(client, dead_letter_exchange="", dead_letter_routing_key=dead)
    fill(client, queue, (9,))
    deposit(client, b"low", key=queue, properties=BasicProperties(priority=1, expiration="50"))
    assert take(client, dead).body == b"low"
    assert ready(client, queue) == 1


def test_no_argument_for_priorities(client: Client) -> None:
    queue = f"p-{secrets.token_hex(4)}"
    declare = queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", "x-max-priority": 5})
    refused = f"invalid arg 'x-max-priority' for queue '{queue}' in vhost '/' of queue type rabbit_quorum_queue"
    assert client.refusal(declare) == f"channel 406 PRECONDITION_FAILED - {refused}"


# Delayed retry


def test_a_delayed_message_is_not_ready(client: Client, place: Place) -> None:
    """Others are delivered meanwhile. A purge drops and counts it, a deletion does not count it."""
    retry = {"delayed_retry_type": "all", "delayed_retry_min": 60_000}
    queue = new(client, **retry)
    deposit(client, b"1", b"2", b"3", key=queue)
    client.send(reject(take(client, queue).method.delivery_tag))
    taken = take(client, queue)
    assert taken.body == b"2"
    client.send(nack(taken.method.delivery_tag))
    eventually(lambda: ready(client, queue) == 1, "one of them ready")
    row = place.counted(queue, messages=3, messages_ready=1, messages_delayed=2)
    assert row["delayed_retry"] == "all (min: 60000ms, max: 60000ms)"
    assert client.ask(QueuePurge(queue, False)).message_count == 3
    deposit(client, b"4", b"5", key=queue)
    client.send(reject(take(client, queue).method.delivery_tag))
    assert take(client, queue).body == b"5"
    deposit(client, b"6", key=queue)
    assert client.ask(queue_delete(queue)).message_count == 1


def test_a_delay_ends_and_the_message_is_before_all_others(client: Client) -> None:
    queue = new(client, delayed_retry_type="failed", delayed_retry_min=80, delayed_retry_max=5000)
    deposit(client, b"m", key=queue)
    client.send(reject(take(client, queue).method.delivery_tag))
    fill(client, queue, (31, 31))
    assert ready(client, queue) == 2
    eventually(lambda: ready(client, queue) == 3, "the end of the delay")
    assert drain(client, queue) == [b"m", b"0:31", b"1:31"]


# Others


def test_a_consumer_of_higher_priority_takes_over(client: Client, dial: Callable[[], Client]) -> None:
    """Once the first has nothing unacknowledged; until then nobody gets more."""
    queue, other = new(client, single_active_consumer=True), dial()
    client.ask(prefetch(2))
    client.ask(consume(queue, "first"))
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    assert bodies(deliveries(client, 2)) == [b"1", b"2"]
    other.ask(consume(queue, "second", arguments={"x-priority": 9}))
    client.send(ack(1))
    assert ready(client, queue) == 2
    assert (client.arrived(), other.arrived()) == ([], [])
    client.send(ack(2))
    assert bodies(deliveries(other, 2)) == [b"3", b"4"]
    other.send(ack(2, multiple=True))
    other.ask(BasicCancel("second", False))
    deposit(client, b"5", key=queue)
    assert bodies(deliveries(client, 1)) == [b"5"]


def test_a_consumer_of_a_classic_queue_stays_active(client: Client) -> None:
    queue = new(client, "classic", single_active_consumer=True)
    client.ask(consume(queue, "first"))
    client.ask(consume(queue, "second", arguments={"x-priority": 9}))
    deposit(client, b"1", key=queue)
    assert client.expect_message(BasicDeliver).method.consumer_tag == "first"


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_exclusive_consumers_are_without_effect(client: Client, kind: str) -> None:
    queue = new(client, kind)
    client.ask(prefetch(1))
    assert isinstance(client.ask(consume(queue, "a", exclusive=True)), BasicConsumeOk)
    assert isinstance(client.ask(consume(queue, "b")), BasicConsumeOk)
    assert isinstance(client.ask(consume(queue, "c", exclusive=True)), BasicConsumeOk)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_basic_get_beside_a_single_active_consumer(client: Client, kind: str) -> None:
    queue = new(client, kind, single_active_consumer=True)
    if kind == "classic":
        client.send(get(queue))
        client.expect(BasicGetEmpty)
        return
    assert client.refusal(get(queue)) == (
        f"channel 405 RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. "
        'basic.get operations are not supported by <<"quorum">> queues with single active consumer'
    )


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_commit_with_a_refused_message(client: Client, kind: str) -> None:
    queue = new(client, kind, max_length=1, overflow="reject-publish")
    deposit(client, b"1", key=queue)
    if kind == "quorum":
        deposit(client, b"2", key=queue)
    client.ask(TxSelect())
    client.publish(b"3", key=queue)
    if kind == "quorum":
        assert isinstance(client.ask(TxCommit()), TxCommitOk)
    else:
        assert client.refusal(TxCommit()) == "channel 406 PRECONDITION_FAILED - partial tx completion"


@pytest.mark.parametrize("flag", ["unused", "empty"])
def test_a_deletion_on_condition(dial: Callable[[], Client], client: Client, flag: str) -> None:
    queue = new(client)
    assert dial().refusal(queue_delete(queue, **{f"if_{flag}": True})) == (
        f"connection 540 NOT_IMPLEMENTED - cannot delete queue '{queue}' in vhost '/'. "
        f"queue.delete operations with if-{flag} flag set are not supported by quorum queues"
    )


def test_a_purge_drops_dead_letters_that_wait(client: Client, place: Place) -> None:
    nowhere = f"p-{secrets.token_hex(4)}"
    queue = new(
        client,
        dead_letter_exchange="",
        dead_letter_routing_key=nowhere,
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    deposit(client, b"1", b"2", b"3", key=queue)
    for message in fetch(client, queue, 2):
        client.send(reject(message.method.delivery_tag, requeue=False))
    assert client.ask(QueuePurge(queue, False)).message_count == 3
    assert client.ask(QueuePurge(queue, False)).message_count == 0
    place.counted(queue, messages_dlx=0, messages=0)


def test_dead_letters_at_least_once_without_refusals(client: Client) -> None:
    """The queue is declared, and dead-letters at most once: what no queue takes is gone."""
    nowhere = f"p-{secrets.token_hex(4)}"
    queue = new(client, dead_letter_exchange="", dead_letter_routing_key=nowhere, dead_letter_strategy="at-least-once")
    deposit(client, b"1", key=queue)
    client.send(reject(take(client, queue).method.delivery_tag, requeue=False))
    assert client.ask(QueuePurge(queue, False)).message_count == 0


def test_dead_letters_of_excess_are_in_publish_order(client: Client) -> None:
    dead = new(client, "classic")
    queue = new(client, max_length=2, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, *(b"%d" % number for number in range(8)), key=queue)
    assert drain(client, queue) == [b"6", b"7"]
    assert [take(client, dead).body for _ in range(6)] == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize(
    ("overflow", "answers"), [("reject-publish", [True, True, False, False]), ("reject-publish-dlx", [True] * 4)]
)
def test_publishes_beyond_the_limit(client: Client, overflow: str, answers: list[bool]) -> None:
    queue = new(client, max_length=1, overflow=overflow)
    client.ask(ConfirmSelect(False))
    found = []
    for number in range(4):
        client.publish(b"%d" % number, key=queue)
        answer = client.receive()
        assert isinstance(answer, BasicAck | BasicNack)
        found.append(isinstance(answer, BasicAck))
    assert found == answers
    assert drain(client, queue) == ([b"0", b"1"] if overflow == "reject-publish" else [b"3"])


@pytest.mark.parametrize("arguments", [{"x-cancel-on-ha-failover": True}, {"x-unknown": 5}], ids=str)
def test_other_arguments_of_consumers(client: Client, arguments: dict[str, Any]) -> None:
    queue = new(client)
    client.ask(consume(queue, "t", arguments=arguments))
    assert isinstance(client.ask(BasicCancel("t", False)), BasicCancelOk)


def test_the_counts_of_the_row(client: Client, place: Place) -> None:
    queue = new(client)
    fill(client, queue, (9, None, None, 31, 31))
    taken = fetch(client, queue, 2)
    client.send(nack(taken[0].method.delivery_tag))
    row = place.counted(queue, messages=5, messages_ready=4, messages_unacknowledged=1, messages_ready_returned=1)
    assert row["messages_by_priority"] == {"4": 2, "9": 1}
    assert (row["messages_active_priorities"], row["messages_delayed"], row["delayed_retry"]) == (2, 0, "disabled")
