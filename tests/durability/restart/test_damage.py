"""Damaged bytes on disk: a message that is not as it was published is never delivered, the others are."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client
from storage.messages import lmdb_environment
from storage.messages.keys import BODY, SEGMENT
from tests.planted.planted_catalogue import with_mistake

GOOD, BAD = b"as it was published", b"what is to be damaged" * 300
"""The second is large enough to be stored once for several queues."""


@pytest.fixture
def damaged(fresh_broker: BrokerProcess) -> BrokerProcess:
    """A broker that was stopped; some of what it holds is not as it was published any more."""
    client = Client.connect(fresh_broker.address)
    for queue in ("own", "shared 1", "shared 2"):
        client.ask(queue_declare(queue, durable=True))
    client.ask(exchange_declare("both", "fanout", durable=True))
    for queue in ("shared 1", "shared 2"):
        client.ask(queue_bind(queue, "both"))
    deposit(client, GOOD, BAD, GOOD, key="own", properties=PERSISTENT)
    deposit(client, GOOD, BAD, GOOD, key="", exchange="both", properties=PERSISTENT)
    client.close()
    fresh_broker.stop()  # LMDB has caught up with the journal then
    damage(fresh_broker.data_dir / "messages")
    return fresh_broker


def damage(messages: Path) -> None:
    """Change a byte of every message that is to be damaged, behind the broker's back."""
    with lmdb_environment.open_environment(messages) as environment, environment.begin(write=True) as txn:
        for key, value in [(bytes(key), bytes(value)) for key, value in txn.cursor()]:
            if key[:1] in (SEGMENT, BODY) and BAD in value:
                txn.put(key, value.replace(BAD, BAD.replace(b"damaged", b"dAmaged", 1)))


def held(broker: BrokerProcess) -> dict[str, list[bytes]]:
    """Return the bodies that a consumer gets of each queue."""
    client = Client.connect(broker.address)
    try:
        return {queue: drain(client, queue) for queue in ("own", "shared 1", "shared 2")}
    finally:
        client.close()


@pytest.mark.slow
def test_what_is_damaged_is_not_delivered_and_the_rest_is(damaged: BrokerProcess) -> None:
    damaged.start()
    assert held(damaged) == {queue: [GOOD, GOOD] for queue in ("own", "shared 1", "shared 2")}
    assert "fails its checksum" in damaged.log()


@pytest.mark.slow
def test_a_broker_that_does_not_look_at_checksums_is_found_out(damaged: BrokerProcess) -> None:
    damaged.environment = with_mistake("checksums not checked")
    damaged.start()
    torn = {queue: [body for body in bodies if body not in (GOOD, BAD)] for queue, bodies in held(damaged).items()}
    assert {queue: len(bodies) for queue, bodies in torn.items()} == dict.fromkeys(torn, 1)
