"""The message store as queues see it: what is put comes back, what is settled does not, whatever happens between."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE, LaneCounters
from storage.messages.message_store import MessageStore
from storage.messages.segments import SEGMENT_BYTES, SEGMENT_MESSAGES
from storage.messages.verify_messages import verify
from tests.unit.storage.writing import END, HEADER, ROUTE, Writer, bodies, clear_away


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages"


@pytest.fixture
def store(path: Path) -> Iterator[MessageStore]:
    with MessageStore.open(path) as store:
        yield store


@pytest.fixture
def writer(store: MessageStore) -> Writer:
    return Writer(store)


def numbered(count: int, size: int = 10) -> list[bytes]:
    return [str(number).encode().ljust(size, b".") for number in range(count)]


# Putting and reading


def test_a_message_comes_back_as_it_was_put(store: MessageStore, writer: Writer) -> None:
    position = writer.put(7, b"body", expires_at=1_700_000_000_000)
    writer.flush()
    (message,) = store.read(7, 0, 0, END, 10, 1000)
    assert message.position == position
    assert (message.route, message.header, message.body) == (ROUTE, HEADER, b"body")
    assert (message.flags, message.expires_at, message.delivery_count, message.body_id) == (1, 1_700_000_000_000, 0, 0)


def test_empty_bodies_and_huge_ones_come_back(store: MessageStore, writer: Writer) -> None:
    sent = [b"", bytes(3 * SEGMENT_BYTES), b"", b"x" * (SEGMENT_BYTES - 1), b"end"]
    writer.puts(1, sent)
    writer.flush()
    assert bodies(store, 1) == sent


def test_order_holds_over_segments_and_commits(store: MessageStore, writer: Writer) -> None:
    sent = numbered(3 * SEGMENT_MESSAGES + 5)
    for start in range(0, len(sent), 1000):
        writer.puts(1, sent[start : start + 1000])
        writer.flush()
    assert bodies(store, 1) == sent


def test_reading_stops_at_either_limit_but_gives_at_least_one(store: MessageStore, writer: Writer) -> None:
    writer.puts(1, numbered(20, size=100))
    writer.flush()
    assert len(store.read(1, 0, 0, END, 3, 1 << 20)) == 3
    assert len(store.read(1, 0, 0, END, 100, 1)) == 1
    assert store.read(1, 0, 0, END, 0, 1 << 20) == []


def test_both_ends_of_a_read_are_exclusive(store: MessageStore, writer: Writer) -> None:
    positions = writer.puts(1, numbered(10))
    writer.flush()
    found = store.read(1, 0, positions[2], positions[6], 100, 1 << 20)
    assert [message.position for message in found] == positions[3:6]


def test_queues_and_lanes_do_not_meet(store: MessageStore, writer: Writer) -> None:
    for queue_id in (1, 2, 255, 256, 1 << 62):
        for lane in (0, 9, 255):
            writer.put(queue_id, b"%d/%d" % (queue_id, lane), lane=lane)
    writer.flush()
    assert bodies(store, 1, 9) == [b"1/9"]
    assert bodies(store, 255, 255) == [b"255/255"]
    assert bodies(store, 256) == [b"256/0"]
    assert bodies(store, 1, 8) == bodies(store, 3) == []


def test_fetch_finds_scattered_positions_in_order(store: MessageStore, writer: Writer) -> None:
    positions = []
    for _ in range(4):
        positions += writer.puts(1, numbered(300))
        writer.flush()
    wanted = [positions[3], positions[299], positions[300], positions[1100]]
    writer.settle(1, positions[299])
    writer.flush()
    found = store.fetch(1, 0, [1, *wanted, positions[-1] + 5])
    assert [message.position for message in found] == [wanted[0], *wanted[2:]]
    assert [message.body[:3] for message in found] == [b"3..", b"0..", b"200"]


def test_a_message_put_between_earlier_ones_takes_its_place(store: MessageStore, writer: Writer) -> None:
    """Transient messages go to disk late, after persistent ones published later."""
    places = [writer.next_position() for _ in range(9)]
    for chosen in ((0, 2, 5, 8), (1, 3, 4), (6,), (7,)):
        for index in chosen:
            writer.put(1, b"%d" % index, position=places[index])
        writer.flush()
    assert bodies(store, 1) == [b"%d" % index for index in range(9)]
    assert [message.position for message in store.fetch(1, 0, places)] == places
    writer.settle(1, *places[1:])
    writer.flush()
    assert bodies(store, 1) == [b"0"]


def test_a_late_run_may_span_many_segments(store: MessageStore, writer: Writer) -> None:
    places = [writer.next_position() for _ in range(3000)]
    for index in range(0, 3000, 2):
        writer.put(1, b"%d" % index, position=places[index])
    writer.flush()
    writer.settle(1, *places[100:200:2])
    writer.flush()
    for index in range(1, 3000, 2):
        writer.put(1, b"%d" % index, position=places[index])
    writer.flush()
    assert bodies(store, 1) == [b"%d" % i for i in range(3000) if i % 2 or not 100 <= i < 200]


# Settling


def test_settled_messages_are_gone_and_the_rest_stays(store: MessageStore, writer: Writer) -> None:
    sent = numbered(100)
    positions = writer.puts(1, sent)
    writer.flush()
    writer.settle(1, *positions[::2])
    writer.flush()
    assert bodies(store, 1) == sent[1::2]


def test_a_message_taken_out_before_its_commit_is_never_written(store: MessageStore, writer: Writer) -> None:
    position = writer.put(1, b"acked at once")
    writer.settle(1, position)
    writer.flush()
    assert bodies(store, 1) == []
    assert store.lanes()[1][0].snapshot() == LaneCounters(0, 0, 0, 0)


def test_settling_what_is_not_there_changes_nothing(store: MessageStore, writer: Writer) -> None:
    positions = writer.puts(1, numbered(10))
    writer.flush()
    writer.settle(1, 5, positions[-1] + 100, END - 1)
    writer.settle(2, positions[0])
    writer.settle(1, positions[4], positions[4])
    writer.flush()
    writer.settle(1, positions[4])
    writer.flush()
    assert bodies(store, 1) == numbered(10)[:4] + numbered(10)[5:]


def test_acks_in_order_touch_few_records(store: MessageStore, writer: Writer) -> None:
    positions = writer.puts(1, numbered(2000, size=100))
    writer.flush()
    before = store.statistics().entries
    for start in range(0, 2000, 100):
        writer.settle(1, *positions[start : start + 100])
        writer.flush()
        # The segments go one by one; beside them there is one bitmap at most.
        assert store.statistics().entries <= before + 1
    assert store.statistics().entries == 2  # identity and counters


def test_a_segment_mostly_settled_is_written_anew(store: MessageStore, writer: Writer) -> None:
    positions = writer.puts(1, numbered(200, size=1000))
    writer.flush()
    full = store.statistics().live_bytes
    writer.settle(1, *positions[:199])
    writer.flush()
    assert store.statistics().live_bytes < full // 8
    assert bodies(store, 1) == [numbered(200, size=1000)[199]]
    writer.settle(1, positions[199])
    writer.flush()
    assert store.statistics().entries == 2


def test_the_file_stays_near_the_live_data(store: MessageStore, writer: Writer) -> None:
    """Publish and ack for a long while with a steady number of messages: freed pages must be used again."""
    random_numbers, live, size, live_limit = random.Random(4), [], 900, 4 << 20
    payload = random_numbers.randbytes(4096)
    for _ in range(400):
        sizes = [random_numbers.randrange(1, 2 * size) for _ in range(random_numbers.randrange(20, 400))]
        live += writer.puts(1, [payload[:length] for length in sizes])
        excess = max(0, len(live) - live_limit // size)
        writer.settle(1, *live[:excess])
        del live[:excess]
        writer.flush()
    statistics = store.statistics()
    assert statistics.file_bytes <= 2 * live_limit + (4 << 20)


# Counters and restarts


def test_counters_come_back_without_reading_messages(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        positions = writer.puts(3, [b"12345", b"123"])
        writer.put(3, b"1", lane=2)
        writer.delivered(3, positions[0])
        writer.flush()
    with MessageStore.open(path) as store:
        lanes = store.lanes()
        assert lanes.keys() == {3}
        assert lanes[3][0].snapshot() == LaneCounters(2, 8, positions[0], 0)
        assert lanes[3][2].snapshot() == LaneCounters(1, 1, 0, 0)
        assert store.highest_queue_id() == 3


def test_each_opening_is_a_new_boot_of_the_same_store(path: Path) -> None:
    seen = []
    for _ in range(3):
        with MessageStore.open(path) as store:
            seen.append((store.uuid, store.boot))
    assert [boot for _uuid, boot in seen] == [1, 2, 3]
    assert len({uuid for uuid, _boot in seen}) == 1


def test_transient_messages_end_with_their_boot(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for number in range(600):
            writer.put(1, b"%d" % number, persistent=number % 3 == 0)
        writer.flush()
        assert len(bodies(store, 1)) == 600
    with MessageStore.open(path) as store:
        kept = [b"%d" % number for number in range(0, 600, 3)]
        assert bodies(store, 1) == kept
        clear_away(store, 1)
        assert bodies(store, 1) == kept
        writer = Writer(store)
        writer.put(1, b"new", persistent=False)
        writer.flush()
        assert bodies(store, 1) == [*kept, b"new"]
    assert verify(path).problems == []


def test_only_transient_messages_leave_nothing_behind(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for number in range(2000):
            writer.put(1, b"%d" % number, persistent=False)
        writer.flush()
    with MessageStore.open(path) as store:
        clear_away(store)
        assert store.statistics().entries == 2
        assert bodies(store, 1) == []


def test_transient_queues_end_with_their_boot_and_their_ids_start_again(path: Path) -> None:
    queue_id = TRANSIENT_QUEUE + 1
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for number in range(3000):
            writer.put(queue_id, b"old %d" % number, body_id=5)
        writer.flush()
    with MessageStore.open(path) as store:
        assert store.lanes() == {}
        assert store.pending_deletions() == set()
        assert store.highest_queue_id() == 0
        writer = Writer(store)
        writer.put(queue_id, b"new")
        writer.flush()
        assert bodies(store, queue_id) == [b"new"]
        clear_away(store, 1)
        assert bodies(store, queue_id) == [b"new"]
        assert store.statistics().entries == 3  # identity, counters, one segment
        writer.delete(queue_id)
        writer.flush()
        clear_away(store)
        assert store.statistics().entries == 1


# Purging and deleting


def test_a_purge_leaves_survivors_and_what_comes_later(store: MessageStore, writer: Writer) -> None:
    sent = numbered(1500)
    positions = writer.puts(1, sent)
    writer.flush()
    survivors = [positions[3], positions[700], positions[1499]]
    writer.purge(1, survivors)
    writer.put(1, b"later")
    writer.flush()
    expected = [sent[3], sent[700], sent[1499], b"later"]
    assert bodies(store, 1) == expected
    writer.settle(1, survivors[1])
    del expected[1]
    writer.flush()
    assert bodies(store, 1) == expected
    clear_away(store, 1)
    assert bodies(store, 1) == expected


def test_a_purge_is_cleared_away_in_bounded_steps_over_restarts(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        positions = []
        for _ in range(40):
            positions += writer.puts(1, numbered(10))
            writer.flush()
        writer.purge(1, positions[5:6])
        writer.flush()
        entries = store.statistics().entries
        assert entries > 20
        assert store.reclaim(3)
        assert entries - store.statistics().entries <= 6  # a segment and its bitmap each
    with MessageStore.open(path) as store:
        assert bodies(store, 1) == [b"5" + b"." * 9]
        assert clear_away(store, 3) > 3
        assert bodies(store, 1) == [b"5" + b"." * 9]
        assert store.statistics().entries <= 4
    assert verify(path).problems == []


def test_a_second_purge_before_the_first_is_cleared(store: MessageStore, writer: Writer) -> None:
    positions = []
    for _ in range(40):
        positions += writer.puts(1, numbered(10))
        writer.flush()
    writer.purge(1, positions[:20])
    writer.flush()
    writer.purge(1, positions[15:16])
    writer.flush()
    assert bodies(store, 1) == [b"5" + b"." * 9]
    clear_away(store, 2)
    assert bodies(store, 1) == [b"5" + b"." * 9]


def test_a_deleted_queue_is_cleared_away_over_restarts(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for _ in range(40):
            writer.puts(1, numbered(5))
            writer.put(1, b"x", lane=3)
            writer.put(2, b"stays")
            writer.flush()
        writer.delete(1)
        writer.flush()
        assert store.pending_deletions() == {1}
        assert store.reclaim(3)
    with MessageStore.open(path) as store:
        assert store.pending_deletions() == {1}
        clear_away(store, 10)
        assert store.pending_deletions() == set()
        assert store.lanes().keys() == {2}
        assert bodies(store, 2) == [b"stays"] * 40
    assert verify(path).problems == []


def test_the_sweep_at_start_deletes_only_what_it_is_told(store: MessageStore, writer: Writer) -> None:
    for queue_id in (1, 2, 3):
        writer.put(queue_id, b"x")
    writer.flush()
    store.delete_queues([2, 99])
    assert store.pending_deletions() == {2}
    clear_away(store)
    assert store.lanes().keys() == {1, 3}
    assert store.highest_queue_id() == 3


# Shared bodies


def test_a_shared_body_is_stored_once_and_goes_with_its_last_reference(store: MessageStore, writer: Writer) -> None:
    body = bytes(1 << 20)
    positions = {queue_id: writer.put(queue_id, body, body_id=77) for queue_id in range(1, 11)}
    writer.flush()
    assert store.statistics().live_bytes < 2 << 20
    for queue_id, position in positions.items():
        assert bodies(store, queue_id) == [body]
        writer.settle(queue_id, position)
        writer.flush()
    assert store.statistics().live_bytes < 1 << 18


def test_a_shared_body_survives_moves_between_queues(store: MessageStore, writer: Writer) -> None:
    first = writer.put(1, b"shared", body_id=5)
    writer.flush()
    writer.settle(1, first)
    second = writer.put(2, b"shared", body_id=5)
    writer.flush()
    assert bodies(store, 2) == [b"shared"]
    writer.settle(2, second)
    writer.flush()
    writer.put(3, b"shared", body_id=5)
    writer.flush()
    assert bodies(store, 3) == [b"shared"]


@pytest.mark.parametrize("end", ["purge", "delete"])
def test_purges_and_deletions_let_go_of_shared_bodies(path: Path, end: str) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for number in range(30):
            writer.put(1, b"s" * 100, body_id=number + 1)
            if number % 2:
                writer.put(2, b"s" * 100, body_id=number + 1)
            writer.flush()
        writer.purge(1) if end == "purge" else writer.delete(1)
        writer.flush()
        clear_away(store, 4)
        assert bodies(store, 1) == []
        assert bodies(store, 2) == [b"s" * 100] * 15
    report = verify(path)
    assert report.problems == []
    assert report.bodies == 15


# Threads


def test_reading_while_another_thread_commits(store: MessageStore, writer: Writer) -> None:
    """Every read sees some whole commit: always a run without holes."""
    failures: list[object] = []
    stop = threading.Event()

    def publish() -> None:
        live: list[int] = []
        try:
            for number in range(300):
                live += writer.puts(1, [b"%d" % number] * 10)
                if number > 20:
                    writer.settle(1, *live[:10])
                    del live[:10]
                writer.flush()
        except BaseException as error:
            failures.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=publish)
    thread.start()
    reads = 0
    while not stop.is_set():
        numbers = [int(message.body) for message in store.read(1, 0, 0, END, 10_000, 1 << 30)]
        reads += 1
        if (
            numbers != [number for number in range(numbers[0], numbers[-1] + 1) for _ in range(10)]
            if numbers
            else False
        ):
            failures.append(numbers)
    thread.join()
    assert reads > 0
    assert failures == []


def test_positions_of_a_new_boot_lie_above_all_earlier_ones(path: Path) -> None:
    with MessageStore.open(path) as store:
        first = Writer(store).next_position()
        assert first >> COUNTER_BITS == store.boot
    with MessageStore.open(path) as store:
        assert Writer(store).next_position() > first
