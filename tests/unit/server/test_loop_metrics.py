"""Measurements of the server itself: commits, the waits for them, turns, and how late the loop is."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from broker.entities.statistics.measurements import Histogram
from broker.server.loop_metrics import LoopMetrics
from broker.wire.methods import BasicAck, ConfirmSelect
from harness.brokers.broker_core import SMALL
from harness.brokers.broker_server import let_pass, serving
from harness.clients.amqp_peer import publish_frames
from harness.clients.wire_client import TIMEOUT_SECONDS

BODY = b"x" * 1000


def test_values_are_counted_up_to_the_bound_that_they_reach() -> None:
    """One after the other, or all at once: in whatever order."""
    values = (11.0, 0.0, 1.0, 10.0, 2.0, 1.0)
    one_by_one, at_once = Histogram((1, 10)), Histogram((1, 10))
    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(list(values))
    for histogram in (one_by_one, at_once):
        assert (histogram.counts, histogram.total) == ([3, 2, 1], 25)


@pytest.mark.linux_only("no other system counts the bytes that a thread writes")
async def test_commits_and_waits_are_measured_once_each(tmp_path: Path) -> None:
    async with serving(tmp_path / "messages") as server:
        store, measurements = server.core.store, server.core.broker.statistics.measurements
        metrics = LoopMetrics(measurements, store.io.recent, server.committer.waits, server.engine.activity)
        client = await server.connect()
        queue = server.core.queue("q")
        await client.ask(ConfirmSelect(False))
        metrics.gather()
        before, written = sum(measurements.commit_messages.counts), store.io.written_bytes
        await client.say(publish_frames(BODY, key="q", persistent=True) * 2 * SMALL.messages)
        assert await client.receive() == BasicAck(2 * SMALL.messages, True)
        metrics.gather()
        metrics.gather()
        assert sum(measurements.commit_messages.counts) == before + 1
        assert measurements.commit_messages.total == 2 * SMALL.messages
        assert sum(measurements.confirm_seconds.counts) == 1
        assert measurements.confirm_seconds.total <= TIMEOUT_SECONDS
        for histogram in (measurements.commit_bytes, measurements.commit_seconds, measurements.sync_seconds):
            assert sum(histogram.counts) == sum(measurements.commit_messages.counts)
        assert measurements.sync_seconds.total < measurements.commit_seconds.total
        assert store.io.written_bytes - written > 2 * SMALL.messages * len(BODY)
        assert sum(measurements.turn_seconds.counts) > 0
        store.read(queue.store.queue_id, 0, 0, 1 << 63, SMALL.messages, 1 << 20)
        assert store.io.read_messages == SMALL.messages
        assert store.io.read_bytes > SMALL.messages * len(BODY)


async def test_the_lag_of_the_event_loop(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with serving(tmp_path / "messages") as server, trio.open_nursery() as nursery:
        measurements = server.core.broker.statistics.measurements
        activity = server.engine.activity
        nursery.start_soon(LoopMetrics(measurements, server.core.store.io.recent, server.committer.waits, activity).run)
        await let_pass(60)
        assert sum(measurements.lag_seconds.counts) == 1, "where nothing happens it rests"
        server.engine.end_turn()
        await let_pass(60)
        assert sum(measurements.lag_seconds.counts) == 2
        assert measurements.lag_seconds.total == 0, "virtual time is never late"
        nursery.cancel_scope.cancel()
