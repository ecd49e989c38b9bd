"""Opens each disk that a crash of the store's workload may leave, and holds it against what was promised."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from storage.batch import LaneState
from storage.messages.message_store import MessageStore
from storage.messages.verify_messages import verify
from tests.durability.crash.explorer import Case, Subject
from tests.durability.crash.recording.recorder import Event
from tests.durability.crash.recording.store_marks import CLOSED, Contents, Held, Ledger
from tests.durability.crash.recording.workload_store import STREAM
from tests.unit.storage.writing import END, Writer, clear_away


def contents_of(store: MessageStore) -> Contents:
    """Every message, read as a queue reads it."""
    found: Contents = {}
    for queue_id, lanes in living_lanes(store).items():
        for lane in lanes:
            messages = store.read(queue_id, lane, -1, END, 1 << 30, 1 << 40)
            assert [m.position for m in messages] == sorted({m.position for m in messages}), "out of order"
            found |= {(queue_id, lane, m.position): Held(m.body.decode("latin-1"), m.delivery_count) for m in messages}
            closed = store.streams.history(queue_id, lane).closed
            found |= {(queue_id, CLOSED, first): Held(str(known)) for _, _, first, *known in closed}
    return found


def living_lanes(store: MessageStore) -> dict[int, dict[int, LaneState]]:
    """The lanes of queues that are not being deleted."""
    deleted = store.pending_deletions()
    return {queue_id: lanes for queue_id, lanes in store.lanes().items() if queue_id not in deleted}


def check_counters(store: MessageStore, contents: Contents) -> None:
    """The counters agree with the messages."""
    sizes: dict[tuple[int, int], list[int]] = {}
    for (queue_id, lane, _position), held in contents.items():
        sizes.setdefault((queue_id, lane), []).append(len(held.text))
    for queue_id, lanes in living_lanes(store).items():
        for lane, state in lanes.items():
            found = sizes.get((queue_id, lane), [])
            assert (state.messages, state.bytes) == (len(found), sum(found)), f"counters of {queue_id}/{lane}: {found}"


def check_stream(store: MessageStore, contents: Contents) -> None:
    """The stream has no holes, its end is where its last message is, and its segments follow each other."""
    offsets = [position for queue_id, lane, position in contents if (queue_id, lane) == (STREAM, 0)]
    assert offsets == list(range(offsets[0], offsets[-1] + 1)) if offsets else True
    history = store.streams.history(STREAM, 0)
    assert (history.last[0] if history.last else None) == (offsets[-1] if offsets else None)
    ends = [offsets[0] if offsets else 0, *(segment.end for segment in history.closed)]
    assert [segment.first for segment in history.closed] == ends[:-1]


class Found(NamedTuple):
    """What is in a store after a start; whether there was one."""

    existed: bool
    boot: int
    contents: Contents


def recovered(root: Path) -> Found:
    """What is in a store after a start. It can be used, and is the same after another start."""
    path = root / "messages"
    existed = path.exists()
    with MessageStore.open(path) as store:
        found = Found(existed, store.boot, contents_of(store))
        assert store.corrupt == []
        check_counters(store, found.contents)
        check_stream(store, found.contents)
        used = use(store, found.contents)
    with MessageStore.open(path) as store:
        assert contents_of(store) == used, "the store changed over a clean restart"
        check_counters(store, used)
    problems = verify(path).problems
    assert problems == [], problems
    return found


def judge(ledger: Ledger, found: Found) -> list[str]:
    """What is wrong with a store by what has been promised."""
    problems = []
    if ledger.store_promised and not found.existed:
        problems.append("the store is gone")
    if found.boot <= ledger.boot:
        problems.append(f"boot {found.boot} comes again, after {ledger.boot}")
    allowed = ledger.allowed()
    if found.contents not in allowed:
        problems.append(difference(found.contents, allowed[0]))
    return problems


def use(store: MessageStore, contents: Contents) -> Contents:
    """The store goes on: what is put now is there, what is settled goes, and dead records are cleared away.

    What is in it then.
    """
    writer = Writer(store)
    settled = [key for key in contents if key[1] != CLOSED][::3]
    for queue_id, lane, position in settled:
        writer.settle(queue_id, position, lane=lane)
    position = writer.put(1, b"after the crash")
    writer.flush()
    clear_away(store)
    expected = contents | {(1, 0, position): Held("after the crash")}
    for key in settled:
        del expected[key]
    used = contents_of(store)
    assert used == expected, "the store cannot be used"
    return used


def difference(found: Contents, promised: Contents) -> str:
    """What is wrong, in few words."""
    missing, extra = promised.keys() - found.keys(), found.keys() - promised.keys()
    wrong = [key for key in found.keys() & promised.keys() if found[key] != promised[key]]
    return f"missing {sorted(missing)[:3]}, not promised {sorted(extra)[:3]}, other content {sorted(wrong)[:3]}"


def cases(events: list[Event]) -> Iterator[Case]:
    """The record, with what was promised by each event."""
    ledger = Ledger()
    for event in events:
        if event.kind == "m":
            ledger.follow(event.payload)
        yield Case(event, event.kind == "m", partial(judge, ledger))


SUBJECT = Subject(recovered, cases)
