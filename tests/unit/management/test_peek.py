"""A look at the messages of a queue, over HTTP: what it shows of each type of queue, page by page, and to whom.

That nothing changes by it, whatever happens to the queue, is held by the walks of tests/models.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import trio

from broker.admin.messages import queue_peek
from broker.admin.messages.queue_peek import PeekRequest, peek
from broker.entities.arguments.personality import PERSONALITIES
from broker.wire.field_tables import from_python
from broker.wire.methods import BasicGetOk
from broker.wire.properties import BasicProperties
from harness.brokers.broker_core import Core, Reader, flip, message
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import GUEST, ask, web_address, web_broker
from harness.clients.shorthand import ack, get, nack, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from storage.messages.keys import SEGMENT

WINDOW = "[limits]\nqueue_window_messages = 8\n"
KINDS: dict[str, dict[str, Any]] = {
    "classic": {},
    "priorities": {"x-max-priority": 3},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
}
MESSAGES = 60
COUNTERS = ("publish", "deliver", "get", "get_no_ack", "get_empty", "deliver_get", "redeliver", "ack", "disk_reads")


class Site(NamedTuple):
    """A broker with a small window."""

    broker: BrokerProcess

    def peek(self, queue: str, user: str = GUEST, **query: object) -> Any:
        status, answer = self.ask(queue, user, **query)
        assert status == 200, answer
        return answer

    def ask(self, queue: str, user: str = GUEST, **query: object) -> tuple[int, Any]:
        parameters = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        reply = ask(web_address(self.broker), f"/api/queues/%2F/{queue}/peek?{parameters}", user=user)
        return reply.status, json.loads(reply.body)

    def pages(self, queue: str, count: int, **query: object) -> list[dict[str, Any]]:
        """All messages, page by page."""
        rows, offset = list[dict[str, Any]](), 0
        while offset is not None:
            page = self.peek(queue, offset=offset, count=count, **query)
            assert len(page["messages"]) <= count
            rows += page["messages"]
            offset = page["next_offset"]
        return rows

    def figures(self, queue: str) -> dict[str, Any]:
        """The counters of a queue, and its numbers of messages."""
        reply = ask(web_address(self.broker), f"/api/queues/%2F/{queue}?disable_stats=false")
        row = json.loads(reply.body)
        stats = {name: row.get("message_stats", {}).get(name, 0) for name in COUNTERS}
        return {name: row[name] for name in ("messages_ready", "messages_unacknowledged")} | stats


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    broker = web_broker(tmp_path_factory.mktemp("peek"), WINDOW)
    broker.start()
    for user in ("reader", "writer"):
        broker.tell("add_user", name=user, password="p", tags=["management"])
        granted = "^q" if user == "reader" else "^$"
        broker.tell("set_permissions", user=user, vhost="/", configure="^$", write="^$", read=granted)
    yield Site(broker)
    assert broker.stop() == 0, broker.log()
    assert "Traceback" not in broker.log()


def filled(site: Site, client: Client, queue: str, arguments: dict[str, Any]) -> list[int]:
    """A durable queue with numbered messages, every third one transient; their order of delivery."""
    client.ask(queue_declare(queue, durable=True, arguments=arguments))
    for number in range(MESSAGES):
        headers = from_python({"tenant": f"t{number % 4}", "n": number})
        mode, priority = 1 if number % 3 == 0 else 2, number % 4 if "x-max-priority" in arguments else None
        client.publish(
            b"%d" % number,
            key=queue,
            properties=BasicProperties(delivery_mode=mode, priority=priority, headers=headers),
        )
    eventually(lambda: site.figures(queue)["messages_ready"] == MESSAGES, "all messages to be there")
    by_priority = "x-max-priority" in arguments
    return sorted(range(MESSAGES), key=lambda number: (-(number % 4) if by_priority else 0, number))


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["payload"]) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_all_messages_are_seen_in_the_order_of_delivery_and_stay(site: Site, kind: str) -> None:
    client, queue = Client.connect(site.broker.address), f"q-{kind}"
    order = filled(site, client, queue, KINDS[kind])
    before = site.figures(queue)
    rows = site.pages(queue, 7)
    assert numbers(rows) == order
    assert [row["position"] for row in rows] == list(range(MESSAGES))
    assert [row["message_count"] for row in rows] == list(range(MESSAGES - 1, -1, -1))
    assert {row["redelivered"] for row in rows} == {False}
    assert numbers(site.pages(queue, 1000, header="tenant:t2")) == [number for number in order if number % 4 == 2]
    assert numbers(site.pages(queue, 5, header="n:17")) == [17]
    assert site.pages(queue, 50, routing_key="else") == []
    assert len(site.pages(queue, 50, routing_key=queue)) == MESSAGES
    assert site.figures(queue) == before
    assert site.peek(queue, offset=MESSAGES)["messages"] == []
    if kind != "stream":
        client.send(*[get(queue)] * 10)
        got = [client.expect_message(BasicGetOk) for _ in range(10)]
        assert [int(message.body) for message in got] == order[:10]
        assert numbers(site.pages(queue, 20)) == order[10:]
        held = site.pages(queue, 3, state="unacknowledged")
        assert numbers(held) == order[:10]
        assert {(row["state"], row["consumer_tag"]) for row in held} == {("unacknowledged", "")}
        assert len({row["channel"] for row in held}) == 1
        assert numbers(site.pages(queue, 5, state="unacknowledged", header="tenant:t1")) == [
            number for number in order[:10] if number % 4 == 1
        ]
        client.send(ack(got[4].method.delivery_tag, multiple=True), nack(0, multiple=True))
        eventually(lambda: site.figures(queue)["messages_unacknowledged"] == 0, "the rest to be returned")
        rows = site.pages(queue, 20)
        assert sorted(numbers(rows)) == sorted(order[5:])
        assert {int(row["payload"]) for row in rows if row["redelivered"]} == set(order[5:10])
    client.close()


@pytest.mark.slow
def test_after_a_restart_what_is_left_is_seen(tmp_path: Path) -> None:
    site = Site(web_broker(tmp_path, WINDOW))
    site.broker.start()
    client = Client.connect(site.broker.address)
    orders = {kind: filled(site, client, kind, arguments) for kind, arguments in KINDS.items()}
    client.close()
    site.broker.restart()
    for kind, order in orders.items():
        kept = [number for number in order if number % 3] if kind in ("classic", "priorities") else order
        assert numbers(site.pages(kind, 9)) == kept, kind
    assert site.broker.stop() == 0


def test_bodies_are_cut_between_characters(site: Site) -> None:
    client = Client.connect(site.broker.address)
    client.ask(queue_declare("q-bodies", durable=True))
    bodies = ["aä€😀".encode(), b"\xff\xfe\xfd", "ä".encode() * (1 << 20)]
    for body in bodies:
        client.publish(body, key="q-bodies", properties=BasicProperties(delivery_mode=2))
    eventually(lambda: site.figures("q-bodies")["messages_ready"] == 3, "all messages to be there")
    for size, shown in ((0, ""), (1, "a"), (2, "a"), (3, "aä"), (5, "aä"), (9, "aä€"), (10, "aä€😀")):
        row = site.peek("q-bodies", truncate=size, count=1)["messages"][0]
        assert (row["payload"], row["payload_encoding"], row["payload_bytes"]) == (shown, "string", 10)
    rows = site.peek("q-bodies")["messages"]
    assert (rows[1]["payload"], rows[1]["payload_encoding"]) == (b64encode(bodies[1]).decode(), "base64")
    assert (len(rows[2]["payload"]), rows[2]["payload_bytes"]) == (25_000, 2 << 20)
    row = site.peek("q-bodies", encoding="base64", truncate=4)["messages"][0]
    assert (row["payload"], row["payload_encoding"]) == (b64encode(bodies[0][:4]).decode(), "base64")
    client.close()


def test_who_may_look(site: Site) -> None:
    client = Client.connect(site.broker.address)
    client.ask(queue_declare("q-own", exclusive=True))
    client.ask(queue_declare("q-all"))
    assert site.ask("q-all", user="reader:p")[0] == 200
    status, answer = site.ask("q-all", user="writer:p")
    assert (status, answer["error"]) == (401, "not_authorised")
    status, answer = site.ask("q-own")
    assert (status, "RESOURCE_LOCKED" in answer["reason"]) == (400, True)
    assert site.ask("q-none")[0] == 404
    client.close()


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("offset", -1, "from 0 to"),
        ("count", 0, "from 1 to 1,000"),
        ("count", 1001, "from 1 to 1,000"),
        ("truncate", (1 << 20) + 1, "from 0 to 1,048,576"),
        ("count", "many", "expected a number"),
        ("routing_key", "k" * 256, "255 bytes"),
        ("encoding", "hex", "auto or base64"),
        ("state", "gone", "ready or unacknowledged"),
    ],
)
def test_wrong_values_are_named_with_their_limit(site: Site, name: str, value: object, limit: str) -> None:
    client = Client.connect(site.broker.address)
    client.ask(queue_declare("q-all"))
    status, answer = site.ask("q-all", **{name: value})
    assert (status, answer["error"]) == (400, "bad_request")
    assert name in answer["reason"], answer
    assert limit in answer["reason"], answer
    client.close()


# The work of one request


def test_a_request_looks_at_a_limited_number_of_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_peek, "LOOKED_AT_MAX", 50)
    core = Core(tmp_path / "messages")
    queue = core.queue()
    core.deposit(queue, *(b"%d" % number for number in range(120)))
    core.commit()
    queue.publish(message(b"wanted", key="k"))
    wanted = PeekRequest(routing_key="k")
    pages = [trio.run(peek, queue, wanted._replace(offset=offset)) for offset in (0, 50, 100)]
    assert [page.next_offset for page in pages] == [50, 100, None]
    assert [page.looked_at for page in pages] == [50, 50, 21]
    assert [len(page.messages) for page in pages] == [0, 0, 1]
    core.close()


def test_an_answer_has_a_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_peek, "ANSWER_BYTES_MAX", 10_000)
    core = Core(tmp_path / "messages")
    queue = core.queue()
    core.deposit(queue, *[bytes(1 << 12)] * 20)
    core.commit()
    shown, offset = 0, 0
    while offset is not None:
        page = trio.run(peek, queue, PeekRequest(offset))
        assert 1 <= len(page.messages) <= 3
        shown, offset = shown + len(page.messages), page.next_offset
    assert shown == 20
    core.close()


def test_a_damaged_message_is_counted_and_left_where_it_is(tmp_path: Path) -> None:
    """The store sets it aside when it would be delivered."""
    core = Core(tmp_path / "messages")
    core.deposit(core.queue(), *(b"%d" % number for number in range(10)))
    core.restart()
    flip(core.store._environment, SEGMENT)
    queue = core.queue_named("q")
    for offset, shown in ((0, 9), (5, 4), (9, 0)):
        page = trio.run(peek, queue, PeekRequest(offset))
        assert (len(page.messages), page.next_offset, page.unreadable) == (shown, None, 1)
    assert not core.store.corrupt
    assert queue.ready == 10
    assert Reader().drain(queue) == [b"%d" % number for number in range(9)]
    assert core.store.corrupt
    core.close()


@pytest.mark.parametrize("series", ["3.10", "4.3"])
def test_delivery_counts_are_shown_as_get_shows_them(tmp_path: Path, series: str) -> None:
    core = Core(tmp_path / "messages", personality=PERSONALITIES[series])
    queue, reader = core.queue(queue_type="quorum"), Reader()
    core.deposit(queue, b"once", b"never")
    reader.get(queue)
    reader.requeue()
    core.end_turn()
    rows = trio.run(peek, queue, PeekRequest()).messages
    seen = {row["payload"]: row["properties"].get("headers") for row in rows}
    counts = {"x-acquired-count": 1} if series == "4.3" else {"x-delivery-count": 1}
    assert seen == {"once": counts, "never": {"x-delivery-count": 0} if series == "3.10" else None}
    core.close()
