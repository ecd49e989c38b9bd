"""Offsets that groups commit in streams: there after a restart as they were answered, and gone with their stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.clients.shorthand import queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.planted.planted_catalogue import with_mistake

pytestmark = pytest.mark.slow

ROUTE = "/api/leveret/stream-offsets"


def commit(broker: BrokerProcess, group: str, **offsets: int) -> None:
    """Commit offsets of streams, by their names."""
    body = json.dumps({"offsets": offsets}).encode()
    assert ask(web_address(broker), f"{ROUTE}/%2F/{group}", method="PUT", body=body).status == 204


def committed(broker: BrokerProcess) -> dict[tuple[str, str], int]:
    """Every committed offset, by stream and group."""
    rows = json.loads(ask(web_address(broker), ROUTE).body)
    return {(row["queue"], row["group"]): row["offset"] for row in rows}


def declare(client: Client, *streams: str) -> None:
    for stream in streams:
        client.ask(queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"}))


def live(broker: BrokerProcess) -> None:
    """Two lives of a broker; the first one ends by a kill. Raises AssertionError for an offset that is not right."""
    broker.start()
    with closing(Client.connect(broker.address)) as client:
        declare(client, "clicks", "views")
        commit(broker, "billing", clicks=5, views=7)
        commit(broker, "search", views=2)
        commit(broker, "billing", clicks=9)
        kept = {("clicks", "billing"): 9}
        assert committed(broker) == {**kept, ("views", "billing"): 7, ("views", "search"): 2}
        client.ask(queue_delete("views"))
        declare(client, "views")
        assert committed(broker) == kept, "of the stream that was deleted"
    broker.kill()
    broker.start()
    assert committed(broker) == kept, "after a restart"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = web_broker(tmp_path)
    yield process
    if process.running:
        process.kill()


def test_committed_offsets_outlast_a_kill_but_not_their_stream(broker: BrokerProcess) -> None:
    live(broker)
    broker.stop()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("offsets in memory alone", "after a restart"),
        ("offsets not read at a start", "after a restart"),
        ("offsets written one late", "after a restart"),
        ("offsets of an earlier stream", "of the stream that was deleted"),
    ],
)
def test_a_mistake_is_found(broker: BrokerProcess, name: str, shown: str) -> None:
    broker.environment = with_mistake(name)
    with pytest.raises(AssertionError, match=shown):
        live(broker)
