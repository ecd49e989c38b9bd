"""When delayed messages are due, as the message store keeps it."""

from __future__ import annotations

from pathlib import Path

from storage.batch import DELAYED, LaneState, WaitingMessage, WriteBatch
from storage.messages.message_store import MessageStore
from storage.messages.segments import Segment, pack
from storage.messages.verify_messages import verify
from tests.unit.storage.writing import END, Message

QUEUE = 7


def waits(body: bytes, *, persistent: bool = True) -> Message:
    made = Message(body, persistent=persistent)
    made.flags |= DELAYED
    return made


def store_puts(
    store: MessageStore, state: LaneState, *puts: tuple[int, Message, int], settled: tuple[int, ...] = ()
) -> None:
    """Commit messages with their times in a batch of their own."""
    batch = WriteBatch(1)
    writes = batch.lane(QUEUE, 0, state)
    for position, record, due in puts:
        writes.puts[position] = (record, due)
    writes.settled.extend(settled)
    store.commit(batch.seal())


def test_a_delayed_message_has_a_due_time_and_does_not_expire() -> None:
    ((_first, value),) = pack([(1, (waits(b"body"), 1767225600000))])
    entry = Segment(value).entry(0)
    assert (entry.due_at, entry.expires_at, entry.flags) == (1767225600000, 0, 1 | DELAYED)


def test_times_are_read_without_bodies_in_pieces(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "messages") as store:
        start, state = store.boot << 40, LaneState(messages=4, bytes=9)
        store_puts(store, state, (start + 1, waits(b"a"), 300), (start + 2, waits(b"bb"), 100))
        store_puts(store, state, (start + 3, waits(b"ccc"), 200), (start + 4, waits(b"ddd"), 50))
        first = store.waiting(QUEUE, 0, 0, END, 1)
        assert first == [WaitingMessage(start + 1, 300, 1), WaitingMessage(start + 2, 100, 2)]
        rest = store.waiting(QUEUE, 0, first[-1].position, END, 1)
        assert rest == [WaitingMessage(start + 3, 200, 3), WaitingMessage(start + 4, 50, 3)]
        assert store.waiting(QUEUE, 0, rest[-1].position, END, 1) == []
        assert store.waiting(QUEUE, 0, start + 1, start + 4, 10) == [first[1], rest[0]]
        state.messages, state.bytes = 3, 7
        store_puts(store, state, settled=(start + 2,))
        assert [found.position - start for found in store.waiting(QUEUE, 0, 0, END, 10)] == [1, 3, 4]
    assert verify(tmp_path / "messages").problems == []


def test_transient_messages_wait_until_the_process_ends(tmp_path: Path) -> None:
    directory = tmp_path / "messages"
    with MessageStore.open(directory) as store:
        start, state = store.boot << 40, LaneState(messages=1, bytes=1)
        store_puts(store, state, (start + 1, waits(b"a", persistent=False), 300), (start + 2, waits(b"b"), 100))
        assert len(store.waiting(QUEUE, 0, 0, END, 10)) == 2
    with MessageStore.open(directory) as store:
        assert store.waiting(QUEUE, 0, 0, END, 10) == [WaitingMessage(start + 2, 100, 1)]


def test_a_damaged_segment_is_reported_and_passed_over(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "messages") as store:
        start, state = store.boot << 40, LaneState(messages=2, bytes=2)
        store_puts(store, state, (start + 1, waits(b"a"), 300))
        store_puts(store, state, (start + 2, waits(b"b"), 100))
        with store._environment.begin(write=True) as txn:
            cursor = txn.cursor()
            assert cursor.set_range(b"S")
            value = bytearray(cursor.value())
            value[20] ^= 1
            txn.put(cursor.key(), bytes(value))
        assert store.waiting(QUEUE, 0, 0, END, 10) == [WaitingMessage(start + 2, 100, 1)]
        assert [(record.queue_id, record.messages) for record in store.corrupt] == [(QUEUE, 1)]
