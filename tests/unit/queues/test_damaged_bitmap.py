"""A queue over a store whose record of acknowledgements is damaged: messages come twice, none is lost."""

from __future__ import annotations

import pytest

from harness.brokers.broker_core import Core, Reader
from storage.messages import lmdb_environment
from storage.messages.keys import SETTLED

BODIES = [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("taken", [6, 5, 4])
def test_nothing_is_lost_when_what_was_acknowledged_comes_back(core: Core, taken: int) -> None:
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *BODIES)
    core.commit()
    assert [reader.get(queue) for _ in range(2)] == BODIES[:2]
    reader.ack()
    core.commit()
    core.store.close()
    with lmdb_environment.open_environment(core.directory) as environment, environment.begin(write=True) as txn:
        cursor = txn.cursor()
        assert cursor.set_range(SETTLED)
        record = bytearray(cursor.value())
        record[-1] ^= 1
        txn.put(bytes(cursor.key()), bytes(record))
    core._start()
    queue = core.queue_named("q")
    assert [reader.get(queue) for _ in range(taken)] == BODIES[:taken]
    reader.ack()
    core.restart()
    queue = core.queue_named("q")
    assert [reader.get(queue) for _ in range(queue.ready)] == BODIES[taken:]
