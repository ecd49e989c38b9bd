"""Policies as clients see them. Everything here is RabbitMQ 3.10.8 on the wire, its policies set with rabbitmqctl."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from broker.wire.field_tables import to_python
from broker.wire.methods import BasicGetOk, BasicNack, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.amqp_peer import Message
from harness.clients.policy_steps import Leveret, Operator, RabbitMQ
from harness.clients.queue_steps import deposit, drain, drain_messages, fetch, ready
from harness.clients.shorthand import (
    exchange_declare,
    exchange_delete,
    get,
    nack,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by
from tests.conformance import Connect, Made


@pytest.fixture(scope="module")
def vhost(request: pytest.FixtureRequest) -> Iterator[RabbitMQ | Leveret]:
    """A virtual host for this file's tests, and whoever may set policies in it."""
    name = f"policies-{time.time_ns():x}"
    found: RabbitMQ | Leveret
    found = RabbitMQ(name) if REFERENCE else Leveret(request.getfixturevalue("shared_process").data_dir, name)
    found.begin()
    yield found
    found.end()


@pytest.fixture
def operator(vhost: RabbitMQ | Leveret) -> Iterator[Operator]:
    """The one who sets policies; policies set by a test are cleared."""
    yield vhost
    for of_operators in (False, True):
        for row in vhost.policies(operator=of_operators):
            vhost.clear(row["name"], operator=of_operators)


@pytest.fixture
def connect(connect: Connect, vhost: RabbitMQ | Leveret) -> Connect:
    """A function that hands out connections to the virtual host."""
    return partial(connect, vhost=vhost.vhost)


@pytest.fixture
def queue(declare: Made) -> str:
    return declare()


def dead_letters(client: Client, queue: str, count: int) -> list[tuple[bytes, str]]:
    """Return body and reason of `count` dead letters once they have come: RabbitMQ's take their time."""
    found: list[Message] = []
    eventually(lambda: found.extend(drain_messages(client, queue)) or len(found) >= count, f"{count} dead letters")
    headers: list[dict[str, Any]] = [to_python(message.properties.headers or {}) for message in found]
    return [(message.body, each["x-death"][0]["reason"]) for message, each in zip(found, headers, strict=True)]


# Which policy holds


def test_it_holds_for_what_is_there_and_for_what_comes(client: Client, queue: str, operator: Operator) -> None:
    """It holds as long as it is set."""
    operator.set("p", f"^{queue}", {"max-length": 1})
    later = queue + "-later"
    client.ask(queue_declare(later))
    for name in (queue, later):
        deposit(client, b"1", b"2", key=name)
        assert drain(client, name) == [b"2"]
    client.ask(queue_delete(later))
    operator.clear("p")
    assert operator.queues()[queue] == ""
    deposit(client, b"1", b"2", key=queue)
    assert drain(client, queue) == [b"1", b"2"]


def test_the_highest_priority_holds_and_alone(client: Client, queue: str, operator: Operator) -> None:
    operator.set("low", f"^{queue}$", {"max-length": 1}, priority=-1)
    operator.set("high", f"^{queue}$", {"message-ttl": 60_000}, priority=3)
    operator.set("middle", f"^{queue}$", {"max-length": 2})
    assert operator.queues()[queue] == "high"
    deposit(client, b"1", b"2", b"3", key=queue)
    operator.clear("high")
    assert operator.queues()[queue] == "middle"
    assert drain(client, queue) == [b"2", b"3"]
    operator.clear("middle")
    assert operator.queues()[queue] == "low"


def test_where_it_applies(queue: str, operator: Operator) -> None:
    """To queues, to exchanges or to both. The pattern is found anywhere, and none is found everywhere."""
    for pattern, apply_to, policy in (
        (f"^{queue}$", "exchanges", ""),
        (f"^{queue}$", "queues", "p"),
        (queue[1:-1], "all", "p"),
        ("", "all", "p"),
        (queue.upper(), "all", ""),
    ):
        operator.set("p", pattern, {"max-length": 1}, apply_to=apply_to)
        assert operator.queues()[queue] == policy, (pattern, apply_to)


OF_OTHERS: list[dict[str, Any]] = [
    {"max-length": 9, "delivery-limit": 3},
    {"dead-letter-strategy": "at-most-once"},
    {"max-age": "1m"},
    {"queue-leader-locator": "balanced"},
    {"initial-cluster-size": 1},
    {"stream-max-segment-size-bytes": 1000},
]
OF_CLASSIC_QUEUES: list[dict[str, Any]] = [
    {"ha-mode": "all"},
    {"queue-master-locator": "min-masters"},
    {"queue-mode": "lazy", "queue-version": 2},
    {"max-in-memory-length": 5, "max-in-memory-bytes": 5},
    {"alternate-exchange": "x"},
]


def test_a_key_of_other_types_of_queue_keeps_a_policy_away(queue: str, operator: Operator) -> None:
    """The whole policy, and the next one takes its place."""
    operator.set("next", f"^{queue}$", {"max-length": 4}, priority=-1)
    for policy, definitions in (("next", OF_OTHERS), ("p", OF_CLASSIC_QUEUES)):
        for definition in definitions:
            operator.set("p", f"^{queue}$", definition)
            assert operator.queues()[queue] == policy, definition


OF_STREAMS = {
    "max-age": "1m",
    "max-length-bytes": 500_000,
    "stream-max-segment-size-bytes": 1_000_000,
    "initial-cluster-size": 1,
    "queue-leader-locator": "balanced",
    "queue-version": 2,
    "alternate-exchange": "x",
}
OF_STREAMS_ALONE = ("max-age", "stream-max-segment-size-bytes", "initial-cluster-size")
NOT_OF_STREAMS = {
    "message-ttl": 60_000,
    "expires": 600_000,
    "max-length": 5,
    "overflow": "drop-head",
    "dead-letter-exchange": "x",
    "dead-letter-routing-key": "x",
    "dead-letter-strategy": "at-most-once",
    "delivery-limit": 3,
    "max-in-memory-length": 5,
    "ha-mode": "all",
    "queue-mode": "lazy",
    "queue-master-locator": "min-masters",
}


def test_exclusive_queues_with_names_of_the_brokers_have_policies(client: Client, operator: Operator) -> None:
    named = client.ask(queue_declare("", exclusive=True)).queue
    operator.set("p", "^amq.gen-", {"max-length": 1})
    deposit(client, b"1", b"2", key=named)
    assert drain(client, named) == [b"2"]


# Arguments and policies


def test_of_several_limits_the_smallest_counts(client: Client, operator: Operator, declare: Made) -> None:
    """The smallest of argument, policy and operator policy counts; none can make a limit larger."""
    declared, plain = declare(max_length=2), declare()

    def kept(queue: str) -> list[bytes]:
        deposit(client, b"1", b"2", b"3", b"4", key=queue)
        return drain(client, queue)

    for limit, left in ((3, [b"3", b"4"]), (1, [b"4"])):
        operator.set("p", f"^{declared}$", {"max-length": limit})
        assert kept(declared) == left
    operator.set("p", f"^{plain}$", {"max-length": 2})
    for limit, left in ((3, [b"3", b"4"]), (1, [b"4"])):
        operator.set("o", f"^{plain}$", {"max-length": limit}, operator=True)
        assert kept(plain) == left
    operator.clear("p")
    assert kept(plain) == [b"4"]


def test_where_there_is_nothing_to_compare_the_argument_counts(
    client: Client, queue: str, operator: Operator, declare: Made
) -> None:
    """Each key by itself: the exchange may come from an argument, the routing key from a policy."""
    declared = declare(dead_letter_exchange="", dead_letter_routing_key=queue, overflow="drop-head")
    definition = {"dead-letter-exchange": "amq.fanout", "dead-letter-routing-key": "x", "overflow": "reject-publish"}
    operator.set("p", f"^{declared}$", {**definition, "max-length": 1})
    deposit(client, b"1", b"2", key=declared)
    assert dead_letters(client, queue, 1) == [(b"1", "maxlen")]
    declared = declare(dead_letter_exchange="")
    operator.set("p", f"^{declared}$", {"dead-letter-routing-key": queue})
    deposit(client, b"1", key=declared, properties=BasicProperties(expiration="0"))
    assert dead_letters(client, queue, 1) == [(b"1", "expired")]


def test_a_second_declaration_is_compared_with_the_first_alone(client: Client, queue: str, operator: Operator) -> None:
    operator.set("p", f"^{queue}$", {"max-length": 2})
    assert client.ask(queue_declare(queue)).queue == queue
    text = f"inequivalent arg 'x-max-length' for queue '{queue}' in vhost"
    assert text in client.refusal(queue_declare(queue, arguments={"x-max-length": 2}))


# What becomes of messages that are there


def test_a_limit_trims_at_once_and_knows_its_own_dead_letter_exchange(
    client: Client, queue: str, operator: Operator, declare: Made
) -> None:
    """The head goes first: of a queue with priorities, the most important."""
    full, urgent = declare(), declare(max_priority=5)
    definition = {"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": queue}
    deposit(client, b"1", b"2", b"3", b"4", b"5", key=full)
    operator.set("p", f"^{full}$", definition)
    assert dead_letters(client, queue, 3) == [(b"1", "maxlen"), (b"2", "maxlen"), (b"3", "maxlen")]
    assert drain(client, full) == [b"4", b"5"]
    for priority in (0, 3, 1):
        deposit(client, b"%d" % priority, key=urgent, properties=BasicProperties(priority=priority))
    operator.set("p", f"^{urgent}$", definition)
    assert dead_letters(client, queue, 1) == [(b"3", "maxlen")]
    assert drain(client, urgent) == [b"1", b"0"]


def test_a_limit_that_comes_with_reject_publish_trims_first(client: Client, queue: str, operator: Operator) -> None:
    """Until now the queue dropped its oldest messages; lowered further, it refuses and drops nothing.

    It drops them again when messages are no longer refused.
    """
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    operator.set("p", f"^{queue}$", {"max-length": 3, "overflow": "reject-publish"})
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).body == b"2"
    operator.set("p", f"^{queue}$", {"max-length": 1, "overflow": "reject-publish"})
    client.ask(ConfirmSelect(False))
    client.publish(b"refused", key=queue)
    client.expect(BasicNack)
    assert ready(client, queue) == 2
    operator.set("p", f"^{queue}$", {"max-length": 1})
    eventually(lambda: ready(client, queue) == 1, "a message to go")
    assert drain(client, queue) == [b"4"]


def test_a_time_to_live_is_for_messages_to_come(client: Client, queue: str, operator: Operator) -> None:
    """Those that are there keep theirs, or have none; those that came under a policy keep it when it goes."""
    deposit(client, b"for ever", key=queue)
    operator.set("p", f"^{queue}$", {"message-ttl": 100})
    deposit(client, b"brief", key=queue)
    pass_by(time.monotonic() + 0.3)
    assert drain(client, queue) == [b"for ever"]
    deposit(client, b"brief", key=queue)
    operator.clear("p")
    eventually(lambda: ready(client, queue) == 0, "the message to expire")


def test_dead_letters_go_where_the_policy_says_now(
    client: Client, queue: str, operator: Operator, declare: Made
) -> None:
    source = declare()
    deposit(client, b"1", b"2", key=source)
    operator.set("p", f"^{source}$", {"dead-letter-exchange": "", "dead-letter-routing-key": queue})
    first, second = fetch(client, source, 2)
    client.send(nack(first.method.delivery_tag, requeue=False))
    assert dead_letters(client, queue, 1) == [(b"1", "rejected")]
    operator.clear("p")
    client.send(nack(second.method.delivery_tag, requeue=False))
    assert drain(client, source) == []
    assert drain(client, queue) == []


def test_an_expiry_begins_with_the_policy(declare: Made, operator: Operator) -> None:
    queue, kept = declare(), declare()
    pass_by(time.monotonic() + 0.3)
    operator.set("p", f"^{queue}$", {"expires": 200})
    eventually(lambda: queue not in operator.queues(), "the queue to end")
    assert kept in operator.queues()


# Exchanges


@pytest.fixture
def spare(client: Client, queue: str, name: Made) -> str:
    """A fanout exchange that leads to the queue."""
    spare = name("spare")
    client.ask(exchange_declare(spare, "fanout", auto_delete=True))
    client.ask(queue_bind(queue, spare))
    return spare


@pytest.mark.parametrize("exchange", ["declared", "amq.direct"])
def test_an_alternate_exchange_is_asked_from_the_next_message_on(
    client: Client, queue: str, spare: str, operator: Operator, exchange: str
) -> None:
    if exchange == "declared":
        client.ask(exchange_declare(exchange))
    deposit(client, b"before", exchange=exchange, key="nowhere")
    operator.set("p", f"^{exchange}$", {"alternate-exchange": spare}, apply_to="exchanges")
    deposit(client, b"with", exchange=exchange, key="nowhere")
    operator.set("p", f"^{exchange}$", {"alternate-exchange": spare}, apply_to="queues")
    deposit(client, b"for queues", exchange=exchange, key="nowhere")
    operator.set("p", f"^{exchange}$", {"alternate-exchange": spare})
    deposit(client, b"again", exchange=exchange, key="nowhere")
    operator.clear("p")
    deposit(client, b"after", exchange=exchange, key="nowhere")
    assert drain(client, queue) == [b"with", b"again"]


def test_which_exchanges_have_the_alternate_of_a_policy(
    client: Client, queue: str, spare: str, operator: Operator
) -> None:
    """New ones; not one that was declared with another, nor the default exchange. It may speak of queues too."""
    operator.set("late", "^late$", {"alternate-exchange": spare})
    operator.set("own", "^own$", {"alternate-exchange": "amq.fanout"})
    operator.set("default", "^$", {"alternate-exchange": spare})
    for exchange, arguments in (("late", {}), ("own", {"alternate-exchange": spare})):
        client.ask(exchange_declare(exchange, arguments=arguments))
        deposit(client, exchange.encode(), exchange=exchange, key="nowhere")
        client.ask(exchange_declare(exchange, arguments=arguments))
        client.ask(exchange_delete(exchange))
    deposit(client, b"default", key="no such queue")
    assert drain(client, queue) == [b"late", b"own"]
    operator.set("p", ".*", {"alternate-exchange": spare, "max-length": 1})
    deposit(client, b"1", b"2", exchange="amq.direct", key="nowhere")
    assert drain(client, queue) == [b"2"]


# What is refused


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ({}, "no policy provided"),
        ({"nonsense": 5, "max-length": 3}, '[{<<"nonsense">>,5}] are not recognised policy settings'),
        ({"max-priority": 5}, '[{<<"max-priority">>,5}] are not recognised policy settings'),
        ({"federation-upstream-set": "all"},
         '[{<<"federation-upstream-set">>,<<"all">>}] are not recognised policy settings'),
        ({"max-length": -5}, "-5 is not a valid maximum length"),
        ({"max-length": "5"}, '<<"5">> is not a valid maximum length'),
        ({"max-length-bytes": None}, "null is not a valid maximum length in bytes"),
        ({"message-ttl": 1.5}, "1.5 is not a valid message TTL"),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"message-ttl": [1, "a", {"b": 2}]}, '[1,<<"a">>,#{<<"b">> => 2}] is not a valid message TTL'),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": -5, "expires": 0}, "0 is not a valid queue expiry"),
        ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
        ({"dead-letter-exchange": 5}, "5 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": 5}, "5 is not a valid dead letter routing key"),
        ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
        ({"alternate-exchange": 5}, "5 is not a valid alternate exchange name"),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
        ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
        ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
        ({"max-age": "5x"}, '<<"5x">> is not a valid max age'),
        ({"stream-max-segment-size-bytes": 3_000_000_001}, "3000000001 is not a valid segment size"),
        ({"ha-mode": "x"}, '<<"x">> is not a valid ha-mode value'),
        ({"ha-params": 2}, "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        ({"ha-mode": "nodes", "ha-params": ["a", 5]},
         'ha-mode="nodes" takes a list of strings, [5] was not a string'),
        ({"ha-mode": "all", "ha-sync-mode": "x"}, 'ha-sync-mode must be "manual" or "automatic", got <<"x">>'),
        ({"ha-mode": "all", "ha-sync-batch-size": 0}, "ha-sync-batch-size takes an integer greater than 0, 0 given"),
        ({"ha-mode": "all", "ha-promote-on-failure": 1},
         'ha-promote-on-failure must be "always" or "when-synced", got 1'),
        ({"ha-mode": "all", "ha-promote-on-shutdown": 1},
         'ha-promote-on-shutdown must be "always" or "when-synced", got 1'),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(operator: Operator, definition: dict[str, Any], why: str) -> None:
    assert operator.set("p", "^q", definition) == f"Validation failed: {why}"
    assert operator.policies() == []


def test_what_cannot_be_read_is_refused(operator: Operator) -> None:
    wrong = operator.set("p", "(", {"max-length": 1})
    assert wrong.startswith("Validation failed: pattern should be regular expression but is invalid: {")
    wrong = operator.set("p", "^q", {"max-length": 1}, apply_to="words")
    assert wrong.startswith("Validation failed: apply-to 'words' unrecognised; should be 'queues', 'exchanges'")
    wrong = operator.set("p", "(", {"expires": 0})
    assert wrong.startswith("Validation failed: 0 is not a valid queue expiry; pattern should be regular expression")
    assert operator.policies() == []


def test_an_operators_policy_has_few_keys(operator: Operator) -> None:
    """Those of later series are in test_policy_keys.py."""
    for key in ("dead-letter-exchange", "dead-letter-routing-key", "alternate-exchange"):
        why = f'Validation failed: [{{<<"{key}">>,<<"x">>}}] are not recognised policy settings'
        assert operator.set("o", "^q", {"max-length": 1, key: "x"}, operator=True) == why
    wrong = operator.set("o", "^q", {"max-length": "a"}, operator=True)
    assert wrong == 'Validation failed: <<"a">> is not a valid maximum length'
    assert operator.policies(operator=True) == []
    for of_operators in (True, False):
        assert operator.clear("nothing", operator=of_operators) == "Parameter does not exist"


def test_policies_are_listed_the_strongest_last(operator: Operator, vhost: RabbitMQ | Leveret) -> None:
    operator.set("b", "^b", {"max-length": 10**20}, priority=2)
    operator.set("a", "^a", {"message-ttl": 1, "expires": 5}, priority=7, apply_to="queues")
    operator.set("a", "^x", {"expires": 5}, priority=-3, operator=True)
    assert operator.policies() == [
        {"vhost": vhost.vhost, "name": "b", "pattern": "^b", "apply-to": "all", "definition": {"max-length": 10**20},
         "priority": 2},
        {"vhost": vhost.vhost, "name": "a", "pattern": "^a", "apply-to": "queues",
         "definition": {"message-ttl": 1, "expires": 5}, "priority": 7},
    ]  # fmt: skip
    (only,) = operator.policies(operator=True)
    assert (only["name"], only["definition"], only["priority"]) == ("a", {"expires": 5}, -3)


# Quorum queues


def test_quorum_queues_and_streams_have_keys_of_their_own(declare: Made, operator: Operator) -> None:
    queue, stream = declare(queue_type="quorum"), declare(queue_type="stream")
    theirs = {"delivery-limit": 3, "dead-letter-strategy": "at-most-once", "queue-leader-locator": "balanced"}
    theirs |= {"max-length": 5, "message-ttl": 60_000, "alternate-exchange": "x"}
    not_theirs = ("ha-mode", "queue-mode", "queue-master-locator", *OF_STREAMS_ALONE)
    for name, known, one, others in (
        (queue, theirs, {"max-length": 5}, {key: {**OF_STREAMS, **NOT_OF_STREAMS}[key] for key in not_theirs}),
        (stream, OF_STREAMS, {"max-age": "1m"}, NOT_OF_STREAMS),
    ):
        operator.set("p", f"^{name}$", known)
        assert operator.queues()[name] == "p"
        for key, value in others.items():
            operator.set("p", f"^{name}$", {**one, key: value})
            assert operator.queues()[name] == "", key


@pytest.mark.parametrize("of_operators", [False, True])
def test_a_delivery_limit_counts_for_messages_that_are_there(
    client: Client, queue: str, operator: Operator, declare: Made, of_operators: bool
) -> None:
    """The smaller of the argument and both policies: after two deliveries the message is dead."""
    limited = declare(queue_type="quorum", delivery_limit=9, dead_letter_exchange="", dead_letter_routing_key=queue)
    deposit(client, b"1", key=limited)
    operator.set("p", f"^{limited}$", {"delivery-limit": 1}, operator=of_operators)
    for _ in range(2):
        (message,) = fetch(client, limited)
        client.send(nack(message.method.delivery_tag))
    assert dead_letters(client, queue, 1) == [(b"1", "delivery_limit")]
