"""Differences between personalities, as clients see them: docs/protocol.md has the table, a test here each of its
rows.

4.3 as measured on RabbitMQ 4.3.6; 4.2 from the sources v4.2.9 and the release notes. 3.10 and 3.13 are what the other tests
of this folder assert, and are here for comparison.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.entities.arguments.personality import PERSONALITIES
from broker.settings_loader import load
from broker.wire.field_tables import Field, from_python, to_python
from broker.wire.method import Method
from broker.wire.methods import (
    BasicCancel,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    ExchangeDeclare,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE, REFERENCE_HTTP, REFERENCE_SERIES
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain, drain_messages, ready
from harness.clients.shorthand import consume, get, nack, prefetch, queue_bind, queue_declare, reject
from harness.clients.wire_client import Client
from harness.waiting import eventually

OWN = pytest.mark.skipif(bool(REFERENCE), reason="takes a broker of its own")
SETTINGS = '[identity]\npersonality = "{}"\n[limits]\nconsumer_timeout_seconds = 0.5\n'
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
REPLIES = "amq.rabbitmq.reply-to"


class Served(NamedTuple):
    """A broker: its address, that of its management API, and its process unless it is a RabbitMQ."""

    address: tuple[str, int]
    http: tuple[str, int]
    process: BrokerProcess | None

    def answer(self, path: str) -> Any:
        """Return what the API answers."""
        return json.loads(ask(self.http, path).body)

    def permitted(self) -> set[str]:
        """Return the deprecated features that are permitted."""
        return {row["name"] for row in self.answer("/api/deprecated-features") if row.get("state") == "permitted"}

    def put(self, path: str, **body: str) -> None:
        """Make or change something by the API."""
        reply = ask(self.http, path, method="PUT", body=json.dumps(body).encode(), content_type="application/json")
        assert reply.status in (201, 204), reply

    def permit(self, user: str, configure: str = "^$", write: str = "^$", read: str = "^$") -> None:
        """Set a user's permissions in `/`."""
        self.put(f"/api/permissions/%2F/{user}", configure=configure, write=write, read=read)


@pytest.fixture(scope="module", params=[REFERENCE_SERIES] if REFERENCE else PERSONALITIES)
def personality(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def served(personality: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    process = None
    if REFERENCE:
        (host, _, port), (http_host, _, http_port) = REFERENCE.rpartition(":"), REFERENCE_HTTP.rpartition(":")
        served = Served((host, int(port)), (http_host, int(http_port)), None)
    else:
        process = web_broker(tmp_path_factory.mktemp("personality"), SETTINGS.format(personality))
        process.start()
        served = Served(process.address, web_address(process), process)
    served.put("/api/users/weak", password="weak", tags="")
    served.permit("weak")
    yield served
    if process is not None:
        process.stop()


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    client = Client.connect(served.address)
    yield client
    client.close()


@pytest.fixture
def of_4(personality: str) -> bool:
    return personality.startswith("4")


@pytest.fixture
def of_4_3(personality: str) -> bool:
    return personality == "4.3"


def name() -> str:
    return f"p-{secrets.token_hex(4)}"


def test_the_version(client: Client, served: Served, personality: str) -> None:
    """In the server's properties, of the API and of commands."""
    version = {"3.10": "3.10.8", "3.13": "3.13.7", "4.2": "4.2.9", "4.3": "4.3.6"}[personality]
    assert to_python(client.peer.server_start.server_properties)["version"] == version
    assert served.answer("/api/overview")["rabbitmq_version"] == version
    if served.process is not None:
        assert served.process.tell("status")["rabbitmq_version"] == version


def test_another_version_may_be_announced(personality: str) -> None:
    """The settings name it, whatever the personality is."""
    beneath = {"identity": {"personality": personality, "version": "9.9.9"}}
    assert load(None, {}, beneath=beneath).identity.version == "9.9.9"
    assert load(None, {"LEVERET_PERSONALITY": personality}).identity.personality == personality


def test_a_major_number_is_its_last_series() -> None:
    assert load(None, {"LEVERET_PERSONALITY": "4"}).personality == PERSONALITIES["4.3"]


def test_small_frames(served: Served, of_4: bool) -> None:
    """4.1: 8,192 bytes at least."""
    client = Client(served.address)
    client.start()
    client.tune(ConnectionTuneOk(10, 4096, 0))
    if of_4:
        assert client.expect_gone() == []
        if served.process is not None:
            assert "negotiated frame_max = 4096 is outside 8192 to 131072" in served.process.log()
    client.close()


def test_large_messages(client: Client, of_4: bool) -> None:
    """4.0: 16 MiB at most, unless the settings allow more."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.publish(bytes((16 << 20) + 1), key=queue)
    client.send(get(queue))
    if of_4:
        text = "channel 406 PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216"
        assert client.closing(BasicPublish) == text
    else:
        assert len(client.expect_message(BasicGetOk).body) == (16 << 20) + 1


def test_a_prefetch_limit_of_the_channel(client: Client, of_4_3: bool) -> None:
    """4.3: not permitted, and taken as one for each consumer."""
    queues = [client.ask(queue_declare("", exclusive=True)).queue for _ in range(2)]
    client.ask(prefetch(1, of_channel=True))
    client.open_channel(2)
    for queue in queues:
        client.publish(b"x", key=queue, channel=2)
    client.ask(queue_declare(queues[0], passive=True, exclusive=True), channel=2)
    for queue in queues:
        client.send(consume(queue))
    left = 0 if of_4_3 else 1
    eventually(lambda: sum(ready(client, queue, channel=2) for queue in queues) == left, "the limit to be reached")


REFUSED = (
    "connection 541 INTERNAL_ERROR - Feature `{}` is deprecated.\nBy default, this feature is not permitted anymore."
)


@pytest.mark.parametrize(
    ("durable", "arguments", "refused"),
    [
        (False, {}, REFUSED.format("transient_nonexcl_queues")),
        (True, {"x-queue-master-locator": "min-masters"}, REFUSED.format("queue_master_locator")),
        (True, {"x-queue-version": 1}, "channel 406 PRECONDITION_FAILED - invalid arg 'x-queue-version' for queue 'p-"),
        (True, {"x-queue-version": 2}, ""),
        (True, {"x-queue-mode": "lazy"}, ""),  # the release notes of 4.3 say refused, the source does not refuse it
    ],
    ids=["transient", "locator", "version 1", "version 2", "mode"],
)
def test_queues_of_old_ways(
    client: Client, served: Served, of_4_3: bool, durable: bool, arguments: dict[str, object], refused: str
) -> None:
    """4.3: not permitted. Exclusive ones are. A reference may permit transient ones, as other tests need it."""
    if REFERENCE and of_4_3 and not durable and "transient_nonexcl_queues" in served.permitted():
        refused = ""
    declare = queue_declare(name(), durable=durable, arguments=arguments)
    if of_4_3 and refused:
        expected = refused.partition("\n")[0] if REFERENCE else refused  # the next line is of its settings
        assert client.refusal(declare).startswith(expected)
    else:
        client.ask(declare)
        client.ask(queue_declare("", exclusive=True))


@OWN
@pytest.mark.parametrize("limit", [None, 2, -1])
@pytest.mark.parametrize("by", [nack, reject])
def test_a_message_that_comes_back(
    client: Client, of_4: bool, of_4_3: bool, limit: int | None, by: Callable[[int], Method]
) -> None:
    """4.0: a quorum queue without a limit has one of 20; a negative one is none. 4.3: basic.nack does not count."""
    queue, arguments = name(), {"x-queue-type": "quorum"}
    client.ask(queue_declare(queue, durable=True, arguments=arguments | ({"x-delivery-limit": limit} if limit else {})))
    client.publish(b"x", key=queue)
    allowed = {None: 20 if of_4 else None, 2: 2, -1: None}[limit]
    if of_4_3 and by is nack:
        allowed = None
    deliveries = 0
    while deliveries < 30:
        client.send(get(queue))
        item = client.receive()
        if isinstance(item, BasicGetEmpty):
            break
        deliveries += 1
        client.send(by(item.method.delivery_tag))  # type: ignore[union-attr]
    assert deliveries == (30 if allowed is None else allowed + 1)


def test_counts_of_what_comes_back(client: Client, of_4: bool, of_4_3: bool) -> None:
    """4.0: no zeros. 4.3: failures, and beside them how often a message was acquired."""
    queue = name()
    client.ask(queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"}))
    deposit(client, b"x", key=queue, properties=BasicProperties(delivery_mode=2, headers=from_python({"mine": 1})))
    shown = []
    for by in (nack, nack, reject, reject, None, nack):
        client.send(get(queue))
        message = client.expect_message(BasicGetOk)
        shown.append({key: count for key, count in to_python(message.properties.headers).items() if key != "mine"})
        client.send(by(message.method.delivery_tag) if by else BasicRecover(True))
        if by is None:
            client.expect(BasicRecoverOk)
    if of_4_3:
        counts = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2)]
    else:
        counts = [(number, number) for number in range(6)]
    expected = [{"x-acquired-count": acquired, "x-delivery-count": count} for acquired, count in counts]
    if not of_4_3:
        expected = [{"x-delivery-count": row["x-delivery-count"]} for row in expected]
    assert shown == [{key: count for key, count in row.items() if count or not of_4} for row in expected]


@pytest.mark.parametrize(("limit", "shown"), [(None, 20), (5, 5), (-1, "unlimited")])
def test_the_limit_in_the_queues_row(
    client: Client, served: Served, of_4: bool, limit: int | None, shown: object
) -> None:
    """4.0: clients take its absence for no limit."""
    queue, arguments = name(), {"x-queue-type": "quorum"}
    client.ask(queue_declare(queue, durable=True, arguments=arguments | ({"x-delivery-limit": limit} if limit else {})))

    def limits() -> list[object]:
        rows = served.answer("/api/queues")
        alone, listed = served.answer(f"/api/queues/%2F/{queue}"), [row for row in rows if row["name"] == queue]
        return [row.get("delivery_limit") for row in (alone, *listed)]

    eventually(lambda: limits() == [shown if of_4 else None] * 2, "the limit in the rows")


@OWN
def test_counts_after_a_crash(tmp_path: Path, personality: str, of_4_3: bool) -> None:
    process = web_broker(tmp_path, SETTINGS.format(personality))
    process.start()
    client = Client.connect(process.address)
    client.ask(queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"}))
    deposit(client, b"x", key="q", properties=PERSISTENT)
    for by in (nack, reject, nack):
        client.send(get("q"))
        client.send(by(client.expect_message(BasicGetOk).method.delivery_tag))
    deposit(client, b"y", key="q", properties=PERSISTENT)  # confirmed, so what came before it is on disk
    client.close()
    process.kill_and_restart()
    client = Client.connect(process.address)
    client.send(get("q"))
    headers = to_python(client.expect_message(BasicGetOk).properties.headers)
    acquired = {"x-acquired-count": 3} if of_4_3 else {}
    assert headers == {"x-delivery-count": 1 if of_4_3 else 3, **acquired}
    client.close()
    process.stop()


def test_deaths(client: Client, personality: str, of_4: bool) -> None:
    """4.0: an x-death of a publisher is delivered, and does not count. 3.13: headers x-last-death-*."""
    queue, dead = name(), f"{name()}-dead"
    client.ask(queue_declare(dead, durable=True))
    client.ask(queue_declare(queue, durable=True, arguments=DEAD | {"x-dead-letter-routing-key": dead}))
    death = {
        "count": Field("l", 5),
        "reason": "rejected",
        "queue": queue,
        "time": Field("T", 1),
        "exchange": "",
        "routing-keys": [queue],
    }
    properties = BasicProperties(headers=from_python({"x-death": [death], "mine": 1}), expiration="60000")
    client.publish(b"x", key=queue, properties=properties)
    client.send(get(queue))
    delivered = client.expect_message(BasicGetOk)
    assert delivered.properties == properties
    client.send(BasicReject(delivered.method.delivery_tag, False))
    headers = to_python(eventually(lambda: _first(client, dead), "the dead letter").headers or {})
    assert [each["count"] for each in headers["x-death"]] == [1 if of_4 else 6]
    assert next(iter(headers["x-death"][0])) == ("original-expiration" if of_4 else "count")
    assert headers["mine"] == 1
    assert ("x-last-death-queue" in headers) == (personality != "3.10")
    assert ("x-first-death-queue" in headers) == of_4  # 3.x: that was the publisher's to say


def _first(client: Client, queue: str) -> BasicProperties | None:
    client.send(get(queue))
    item = client.receive()
    return None if isinstance(item, BasicGetEmpty) else item.properties  # type: ignore[union-attr]


def test_numbers_of_a_headers_exchange(client: Client, personality: str) -> None:
    """3.13: 1 is not 1.0; integers of all widths are alike in all series."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(queue_bind(queue, "amq.headers", arguments={"n": Field("I", 1)}))
    for field in (Field("d", 1.0), Field("l", 1)):
        client.publish(field.kind.encode(), exchange="amq.headers", properties=BasicProperties(headers={"n": field}))
    assert drain(client, queue) == ([b"d", b"l"] if personality == "3.10" else [b"l"])


def test_a_mandatory_reply(client: Client, of_4: bool) -> None:
    """4.2: a direct reply counts as routed, whether its channel is there or not."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(consume(REPLIES, no_ack=True))
    client.publish(b"ask", key=queue, properties=BasicProperties(reply_to=REPLIES))
    client.send(get(queue))
    address = client.expect_message(BasicGetOk).properties.reply_to
    client.publish(b"answer", key=str(address), mandatory=True)
    client.send(get(queue))
    heard = [client.receive() for _ in range(2 if of_4 else 3)]
    kinds = {type(getattr(item, "method", item)) for item in heard}
    assert kinds == {BasicDeliver, BasicGetEmpty, *([] if of_4 else [BasicReturn])}
    client.publish(b"answer", key=f"{REPLIES}.no-address", mandatory=True)
    assert client.expect_message(BasicReturn).method.reply_code == 312


def test_declaring_the_address_of_ones_own_channel(client: Client, of_4: bool) -> None:
    """4.2: 404, while others may declare it; of what is no address nothing can be got."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(consume(REPLIES, no_ack=True))
    client.publish(b"ask", key=queue, properties=BasicProperties(reply_to=REPLIES))
    (request,) = drain_messages(client, queue)
    address = str(request.properties.reply_to)
    client.open_channel(2)
    assert client.ask(queue_declare(address, passive=True), channel=2).consumer_count == 1
    if of_4:
        text = f"channel 404 NOT_FOUND - no queue '{address}' in vhost '/'"
        assert client.refusal(queue_declare(address, passive=True)) == text
    text = f"channel 404 NOT_FOUND - no queue '{REPLIES}.none' in vhost '/'"
    assert client.refusal(get(f"{REPLIES}.none"), channel=2) == text


def test_permissions(served: Served, of_4: bool) -> None:
    """Since 3.11 refusals name the action; here with 4 alone, as many programs match on the older text."""
    client = Client.connect(served.address, user="weak", password="weak")
    refused = f"{'configure ' if of_4 else ''}access to queue 'q' in vhost '/' refused for user 'weak'"
    assert client.refusal(queue_declare("q", durable=True)) == f"channel 403 ACCESS_REFUSED - {refused}"
    client.close()


@OWN
def test_the_acknowledgement_timeout(client: Client, of_4_3: bool) -> None:
    """4.3: of quorum queues alone, whose consumer is cancelled (tests/unit/channel/test_delivery_timeout.py)."""
    classic, quorum = name(), name()
    client.ask(queue_declare(classic, durable=True))
    client.ask(queue_declare(quorum, durable=True, arguments={"x-queue-type": "quorum"}))
    for channel, queue in ((1, classic), (2, quorum)):
        if channel > 1:
            client.open_channel(channel)
        client.publish(b"x", key=queue, channel=channel)
        client.ask(consume(queue), channel=channel)
        client.expect_message(BasicDeliver, channel=channel)
    timed_out = "channel 406 PRECONDITION_FAILED - delivery acknowledgement on channel 2 timed out"
    if of_4_3:
        assert isinstance(client.receive(channel=2), BasicCancel)
        client.ask(queue_declare(classic, passive=True, durable=True))
    else:
        assert client.closing(channel=2).startswith(timed_out)
        assert "channel 1 timed out" in client.closing(channel=1)


@OWN
def test_features_about_to_end(served: Served, of_4: bool, of_4_3: bool) -> None:
    rows = served.answer("/api/deprecated-features")
    phases = {row["name"]: row["deprecation_phase"] for row in rows}
    phase = "denied_by_default" if of_4_3 else "permitted_by_default"
    assert phases["global_qos"] == phases["transient_nonexcl_queues"] == phase
    assert phases.get("queue_master_locator") == (phase if of_4 else None)
    state = "denied" if of_4_3 else "permitted"
    assert {row["name"]: row.get("state") for row in rows}["global_qos"] == (state if of_4 else None)


def test_an_unknown_exchange_type(client: Client, of_4: bool) -> None:
    refused = client.refusal(ExchangeDeclare("x", "nope", False, True, False, False, False, {}))
    code = "channel 406 PRECONDITION_FAILED" if of_4 else "connection 503 COMMAND_INVALID"
    assert refused == f"{code} - unknown exchange type 'nope'"


def test_passive_declarations_take_a_permission(served: Served, client: Client, of_4: bool) -> None:
    """Any of the three will do; without one it is not said whether the name exists."""
    queue = name()
    client.ask(queue_declare(queue, durable=True))
    weak = Client.connect(served.address, user="weak", password="weak")
    for asked, what in (
        (queue_declare(queue, passive=True), f"queue '{queue}'"),
        (queue_declare("nowhere", passive=True), "queue 'nowhere'"),
        (ExchangeDeclare("amq.topic", "", True, False, False, False, False, {}), "exchange 'amq.topic'"),
    ):
        refused = f"configure access to {what} in vhost '/' refused for user 'weak'"
        if of_4:
            assert weak.refusal(asked) == f"channel 403 ACCESS_REFUSED - {refused}"
    if not of_4:
        weak.ask(queue_declare(queue, passive=True))
    served.permit("weak", read=f"^{queue}$")
    weak.ask(queue_declare(queue, passive=True))
    served.permit("weak")
    weak.close()


@pytest.mark.parametrize("key", ["#.#.#", "#.a.#.b.#"])
def test_topic_keys_with_many_wildcards(client: Client, of_4_3: bool, key: str) -> None:
    queue = client.ask(queue_declare("", exclusive=True)).queue
    for allowed in ("#.#", "a.#.b.#", "#a.##.###"):
        client.ask(queue_bind(queue, "amq.topic", allowed))
    bind = queue_bind(queue, "amq.topic", key)
    if of_4_3:
        text = f"Topic binding key '{key}' uses 3 '#' wildcards, at most 2 are allowed"
        assert client.refusal(bind) == f"channel 406 PRECONDITION_FAILED - {text}"
    else:
        client.ask(bind)


@pytest.mark.parametrize("mode", [0, 3, 9])
def test_delivery_modes(client: Client, of_4: bool, mode: int) -> None:
    """4: all are accepted, and delivered as they are."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.publish(b"x", key=queue, properties=BasicProperties(delivery_mode=mode))
    client.send(get(queue))
    if of_4:
        assert client.expect_message(BasicGetOk).properties.delivery_mode == mode
    else:
        text = f"invalid message: {{delivery_mode_unknown,{mode}}}"
        assert client.closing(BasicPublish).startswith(f"channel 406 PRECONDITION_FAILED - {text}")


def test_binding_a_reply_address(client: Client, of_4: bool) -> None:
    bind = queue_bind(f"{REPLIES}.g1h", "amq.direct", "k")
    if of_4:
        text = "channel 403 ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"
    else:
        text = f"channel 404 NOT_FOUND - no queue '{REPLIES}.g1h' in vhost '/'"
    assert client.refusal(bind) == text


def test_returns_of_a_stream(client: Client, of_4: bool) -> None:
    """4: nack and reject acknowledge, and give credit."""
    stream = name()
    client.ask(queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"}))
    for body in (b"1", b"2") if of_4 else (b"1",):  # 3.10 delivers more of a chunk than it has credit for
        client.publish(body, key=stream)
    client.ask(prefetch(1))
    client.ask(consume(stream, arguments={"x-stream-offset": "first"}))
    first = client.expect_message(BasicDeliver)
    client.send(nack(first.method.delivery_tag))
    if of_4:
        second = client.expect_message(BasicDeliver)
        assert (first.body, second.body) == (b"1", b"2")
        client.send(BasicReject(second.method.delivery_tag, False))
        client.ask(queue_declare(stream, passive=True, durable=True))
    else:
        assert client.closing(BasicNack).startswith(
            "connection 540 NOT_IMPLEMENTED - basic.nack and basic.reject not supported"
        )


@pytest.mark.parametrize(
    ("header", "of_3", "of_4_"),
    [
        (b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x00\x09\x01", b"AMQP\x00\x00\x09\x01"),
        (b"AMQP\x00\x00\x08\x00", b"AMQP\x00\x00\x09\x01", b"AMQP\x03\x01\x00\x00"),
        (b"GET / HT", b"AMQP\x00\x00\x09\x01", b"AMQP\x03\x01\x00\x00"),
    ],
)
def test_headers_of_other_protocols(served: Served, of_4: bool, header: bytes, of_3: bytes, of_4_: bytes) -> None:
    with socket.create_connection(served.address, timeout=30) as raw:
        raw.sendall(header)
        assert raw.recv(100) == (of_4_ if of_4 else of_3)
        with suppress(ConnectionResetError):
            assert raw.recv(100) == b""


def test_anonymous_logins(served: Served, of_4: bool) -> None:
    """4: whoever is let in as guest."""
    client = Client(served.address)
    client.start(mechanism="ANONYMOUS", response=b"anything")
    if of_4:
        assert isinstance(client.receive(), ConnectionTune)
    else:
        assert client.expect_gone() == []
    client.close()


def test_the_remainder_of_a_hash_chooses_the_queue(client: Client, of_4_3: bool) -> None:
    """4.3: of the queues sorted by name, not by binding key."""
    own, exchange = name(), name()
    client.ask(ExchangeDeclare(exchange, "x-modulus-hash", False, False, True, False, False, {}))
    for letter, key in (("c", "1"), ("a", "2"), ("b", "3")):
        client.ask(queue_declare(f"{own}.{letter}", exclusive=True))
        client.ask(queue_bind(f"{own}.{letter}", exchange, key))
    for number in range(30):
        client.publish(str(number).encode(), exchange=exchange, key=f"k{number}")
    found = [" ".join(body.decode() for body in drain(client, f"{own}.{letter}")) for letter in "abc"]
    first, second, third = (
        "1 2 3 5 9 10 21 26 28",
        "4 11 13 14 17 22 23 27",
        "0 6 7 8 12 15 16 18 19 20 24 25 29",
    )
    assert found == ([first, second, third] if of_4_3 else [second, third, first])


def test_direct_replies_are_deliveries(client: Client, of_4: bool) -> None:
    """4.2: each has a delivery tag of its own, and waits for the commit of its transaction."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(consume(REPLIES, "replies", no_ack=True))
    client.publish(b"ask", key=queue, properties=BasicProperties(reply_to=REPLIES))
    (request,) = drain_messages(client, queue)
    address = request.properties.reply_to
    assert address is not None
    tags = []
    for _ in range(2):
        client.publish(b"answer", key=address)
        tags.append(client.expect_message(BasicDeliver).method.delivery_tag)
    assert tags[1] - tags[0] == of_4
    client.open_channel(2)
    client.ask(TxSelect(), channel=2)
    client.publish(b"in a transaction", key=address, channel=2)
    client.ask(queue_declare(REPLIES, passive=True), channel=2)
    if of_4:
        assert client.arrived() == []
        client.send(TxCommit(), channel=2)
    assert client.expect_message(BasicDeliver).body == b"in a transaction"


@pytest.mark.parametrize("queued", [False, True], ids=["replies alone", "beside a message for a queue"])
def test_direct_replies_of_a_transaction(client: Client, of_4: bool, queued: bool) -> None:
    """4.2: they come after commit-ok, which waits for queues alone; if it does, they come first. Returns are before."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(consume(REPLIES, "replies", no_ack=True))
    client.publish(b"ask", key=queue, properties=BasicProperties(reply_to=REPLIES))
    (request,) = drain_messages(client, queue)
    client.ask(TxSelect())
    for key in (str(request.properties.reply_to), name(), *([queue] if queued else [])):
        client.publish(b"", key=key, mandatory=True)
    client.send(TxCommit())
    items = [client.receive() for _ in range(3 if of_4 else 4)]
    found = [(item.method if isinstance(item, Message) else item).NAME for item in items]
    reply, returned, committed = "basic.deliver", "basic.return", "tx.commit-ok"
    if of_4:
        assert found == ([returned, reply, committed] if queued else [returned, committed, reply])
    else:
        assert sorted(found) == [reply, returned, returned, committed]  # the reply comes when RabbitMQ gets to it


@pytest.mark.parametrize("feature", ["global_qos", "transient_nonexcl_queues", "queue_master_locator"])
def test_deprecated_features_may_be_permitted(feature: str) -> None:
    """By deprecated_features.permit.* of rabbitmq.conf, the section of the same name, or the environment."""
    field = {"transient_nonexcl_queues": "transient_queues", "queue_master_locator": "master_locator"}.get(
        feature, feature
    )
    beneath = {"identity": {"personality": "4.3"}}
    assert not getattr(load(None, {}, beneath=beneath).personality, field)
    assert getattr(load(None, {f"LEVERET_PERMIT_{feature.upper()}": "permit"}, beneath=beneath).personality, field)
    denied = load(None, {}, beneath={"deprecated_features": {feature: "deny"}})
    assert not getattr(denied.personality, field)


def test_an_updated_secret(served: Served, of_4_3: bool) -> None:
    """4.3: consumers that may no longer read are cancelled."""
    user = name()
    served.put(f"/api/users/{user}", password="x", tags="")
    served.permit(user, ".*", ".*", ".*")
    client = Client.connect(served.address, user=user, password="x")
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(consume(queue, "t"))
    served.permit(user, ".*", ".*", "^$")
    client.send(ConnectionUpdateSecret(b"x", "lost"), channel=0)
    client.expect(ConnectionUpdateSecretOk, channel=0)
    if of_4_3:
        assert client.expect(BasicCancel) == BasicCancel("t", True)
    else:
        assert client.ask(queue_declare(queue, passive=True)).consumer_count == 1
    client.close()
