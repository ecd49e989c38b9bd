"""The journal as a start, and tools for a stopped broker, find it. The model of the store has it in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from broker.server.commits.commit_policy import STAYING_BYTES_MAX, STAYING_MESSAGES_MAX, CommitLimits, CommitPolicy
from harness.brokers.broker_core import Core, Reader
from storage.journal.processor_waits import ProcessorWaits
from storage.messages.message_store import MessageStore
from storage.offline.offline_reader import StoppedStore
from storage.offline.verify_messages import verify
from tests.unit.storage.writing import END, Writer, bodies

JOURNAL_BYTES = 1 << 16
BODY_BYTES = 100_000


def killed(path: Path, *batches: bytes, caught_up: int = 1) -> None:
    """A store with a batch of one message each, of which LMDB has only the first `caught_up`, a segment for each."""
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for number, body in enumerate(batches):
            writer.put(1, body)
            writer.flush()
            if number < caught_up:
                store.catch_up()


@pytest.mark.parametrize("journal_bytes", [JOURNAL_BYTES, 2 * JOURNAL_BYTES, 0])
def test_a_start_takes_over_what_is_left(path: Path, journal_bytes: int) -> None:
    """It is taken over once, also with other settings of the next journal."""
    killed(path, b"1", b"2", b"3")
    for _ in range(2):
        with MessageStore.open(path, journal_bytes=journal_bytes) as store:
            assert bodies(store, 1) == [b"1", b"2", b"3"]
            assert store.lanes()[1][0].messages == 3
    assert verify(path).problems == []


@pytest.mark.parametrize("caught_up", [False, True])
def test_a_delayed_message_has_a_due_time_and_an_expiry_before_and_after_a_start(path: Path, caught_up: bool) -> None:
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        writer.put(1, b"first batch")
        writer.flush()
        positions = [writer.delay(1, b"m", 1000), writer.delay(1, b"mm", 300, expires_at=2000)]
        writer.flush()
        if caught_up:
            store.catch_up()
        check_times(store, positions)
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        check_times(store, positions)


def check_times(store: MessageStore, positions: list[int]) -> None:
    assert [found.due_at for found in store.waiting(1, 0, positions[0] - 1, END, 10)] == [1000, 300]
    assert [found.expires_at for found in store.fetch(1, 0, positions)] == [0, 2000]


def test_lanes_that_only_the_journal_has_are_its_places(path: Path) -> None:
    """The event log's record of a stop has their messages, although LMDB could not catch up on a full disk."""
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for queue, caught_up in ((1, True), (2, False)):
            writer.put(queue, b"m")
            writer.flush()
            if caught_up:
                store.catch_up()
        assert (list(store.lanes()), store.journal.places()) == ([1], [(2, 0)])


def test_tools_for_a_stopped_broker_see_what_only_the_journal_has(path: Path) -> None:
    killed(path, b"1", b"22", b"333", b"4444", caught_up=2)
    assert verify(path).journaled == 2
    with StoppedStore(path) as store:
        (contents,) = store.lanes()
        assert (contents.messages, contents.bytes) == (4, 10)
        for segments in (1, 2):
            found = [each.message for part in store.ranges(1, 0, segments) for each in store.messages(part)]
            assert [message.body for message in found if message] == [b"1", b"22", b"333", b"4444"]
    assert verify(path).journaled == 2, "nothing was written"


def commit(core: Core) -> None:
    """Bring everything gathered to disk, by the journal as long as the policy wants that."""
    policy = CommitPolicy(CommitLimits(4, 1 << 20))
    while (batch := core.seal()) is not None:
        core.store.commit(batch, to_journal=policy.journal_takes(batch.bytes, core.store.journal.figures()))
        core.broker.stored(batch)


def parcels(core: Core, settle: Callable[[], object], bodies: Sequence[bytes] = (bytes(BODY_BYTES),)) -> list[int]:
    """Return the number of messages that LMDB was given at each catch-up, while these came 30 times; `settle` follows
    each."""
    given, messages = [], 0
    for _ in range(30):
        core.deposit(core.vhost.queues["q"], *bodies)
        commit(core)
        settle()
        commit(core)
        messages += len(bodies)
        if not core.store.journal.ahead:
            given.append(messages)
            messages = 0
    return given


@pytest.fixture
def journaled(tmp_path: Path) -> Iterator[Core]:
    core = Core(tmp_path / "journaled", journal_bytes=4 << 20)
    core.queue("q")
    core.deposit(core.vhost.queues["q"], b"the first batch of a boot goes to LMDB")
    core.commit()
    core.vhost.queues["q"].purge()
    core.commit()
    core.store.catch_up()
    yield core
    core.close()


def test_what_stays_goes_to_lmdb_before_the_journal_is_full(journaled: Core) -> None:
    large = STAYING_BYTES_MAX // BODY_BYTES
    assert parcels(journaled, settle=bool) in ([large + 1], [large + 2])


def test_many_small_messages_that_stay_go_there_earlier(journaled: Core) -> None:
    (many,) = parcels(journaled, settle=bool, bodies=[b"x"] * 100)
    assert STAYING_MESSAGES_MAX < many <= STAYING_MESSAGES_MAX + 200


@pytest.mark.parametrize("how", ["acknowledged", "purged"])
def test_what_goes_again_has_the_whole_journal(journaled: Core, how: str) -> None:
    queue, reader = journaled.vhost.queues["q"], Reader()
    if how == "acknowledged":
        reader.consume(queue)

    def settle() -> None:
        journaled.end_turn()
        reader.ack() if how == "acknowledged" else queue.purge()

    assert parcels(journaled, settle) == []


def test_waits_for_a_processor_are_told_since_the_last_time(tmp_path: Path) -> None:
    statistics = tmp_path / "schedstat"
    waits = ProcessorWaits(statistics)
    told = []
    for text in ("5 1000000000 7", "9 1500000000 8", "9 1500000000 8", "nonsense"):
        statistics.write_text(text)
        told.append(waits.since_last())
    assert told == [0.0, 0.5, 0.0, 0.0]


def test_a_write_takes_the_disk_no_longer_than_the_thread(tmp_path: Path) -> None:
    """The system's own figures: waits for a processor are not the disk's."""
    waits = ProcessorWaits()
    waits.since_last()
    began = time.monotonic()
    for _ in range(200):
        time.sleep(0)
    assert 0.0 <= waits.since_last() <= time.monotonic() - began
