"""The event log of a broker that is killed under load: it balances, boot by boot, save for what it says it has lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from harness.brokers.recording_broker import events_of, recording_broker
from harness.clients.wire_client import Client
from leveret_spark.events.event_log_reader import Event
from tests.durability.restart.scripted_load import ScriptedLoad
from tests.durability.restart.test_kill_under_load import Worker

KILLS = 4
CONFIRMS = 3000
"""Of one client, before each kill: by then the places of what was there at the start are long recorded."""
SETTLED = {"ack", "reject", "expire", "drop"}

Place = tuple[str | None, int | None]


def places(events: Iterable[Event], *kinds: str) -> set[Place]:
    return {(event.queue, event.position) for event in events if event.kind in kinds}


def expect_balance(before: list[Event], after: list[Event]) -> None:
    """What the next boot found is what this one had left, but for what was lost at the end of its log."""
    routed = {(event.queue, event.position) for event in before if event.kind == "route" and event.persistent}
    had = (places(before[: 1 + _last(before, "snapshot")], "queued") | routed) - places(before, *SETTLED)
    found = places(after[: 1 + _last(after, "snapshot")], "queued")
    detail = json.loads(after[0].detail or "")
    assert (detail["previous_boot"], detail["previous_last"]) == (before[-1].boot, before[-1].seq)
    if before[-1].kind == "stop":
        assert found == had
        assert places(before[_last(before, "snapshot") :], "queued") == had
    reach = max((event.msg_id or 0 for event in before), default=0)
    assert not [place for place in found - had if (place[1] or 0) <= reach], "what was settled or never there is back"


def _last(events: list[Event], kind: str) -> int:
    return max(index for index, event in enumerate(events) if event.kind == kind)


@pytest.mark.slow
def test_the_log_balances_over_kills(tmp_path: Path) -> None:
    broker = recording_broker(tmp_path)
    broker.start()
    loads = [ScriptedLoad(queue) for queue in ("a", "b")]
    client = Client.connect(broker.address)
    for load in loads:
        load.set_up(client)
    client.close()
    for _ in range(KILLS):
        clients = [Client.connect(broker.address) for _ in loads]
        workers = [Worker(client, load, CONFIRMS) for client, load in zip(clients, loads, strict=True)]
        for worker in workers:
            worker.start()
        workers[0].far_enough.wait()
        broker.kill()
        for client, worker in zip(clients, workers, strict=True):
            worker.join()
            client.close()
            assert worker.failure is None, worker.failure
        broker.start()
        for load in loads:
            client = Client.connect(broker.address)
            load.inspect(client)
            client.close()
        assert broker.stop() == 0, broker.log()
        broker.start()
    broker.kill()
    events = events_of(broker)
    boots = [[event for event in events if event.boot == boot] for boot in range(1, events[-1].boot + 1)]
    for boot in boots:
        assert [event.seq for event in boot] == list(range(1, len(boot) + 1))
    for before, after in pairwise(boots):
        expect_balance(before, after)
    assert len([boot for boot in boots if boot[-1].kind != "stop"]) == KILLS
