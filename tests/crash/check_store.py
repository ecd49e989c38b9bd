"""Opens each disk that a crash of the store's workload may leave, and holds it against what was promised.

Each state is opened by the real recovery code in a process of its own: LMDB maps its file, and a bad one would kill
the checker.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from storage.batch import LaneState
from storage.messages import MessageStore
from storage.verify import verify
from tests.crash.ledger import Contents, Ledger
from tests.crash.recorder import Event, read_events
from tests.crash.states import Chance, Disk, Remains, fingerprint, write_out
from tests.storage.writing import END, Writer, clear_away

SECONDS_PER_STATE = 30


def contents_of(store: MessageStore) -> Contents:
    """Every message, read as a queue reads it."""
    found: Contents = {}
    for queue_id, lanes in living_lanes(store).items():
        for lane in lanes:
            messages = store.read(queue_id, lane, 0, END, 1 << 30, 1 << 40)
            assert [m.position for m in messages] == sorted({m.position for m in messages}), "out of order"
            found |= {(queue_id, lane, m.position): m.body.decode("latin-1") for m in messages}
    return found


def living_lanes(store: MessageStore) -> dict[int, dict[int, LaneState]]:
    """The lanes of queues that are not being deleted."""
    deleted = store.pending_deletions()
    return {queue_id: lanes for queue_id, lanes in store.lanes().items() if queue_id not in deleted}


def check_counters(store: MessageStore, contents: Contents) -> None:
    """The counters agree with the messages."""
    for queue_id, lanes in living_lanes(store).items():
        for lane, state in lanes.items():
            sizes = [len(text) for key, text in contents.items() if key[:2] == (queue_id, lane)]
            assert (state.messages, state.bytes) == (len(sizes), sum(sizes)), f"counters of {queue_id}/{lane}: {sizes}"


def check(path: Path, ledger: Ledger) -> None:
    """Recover a store, and hold it against its ledger. Raises when anything is not as promised."""
    assert path.exists() or not ledger.store_promised, "the store is gone"
    with MessageStore.open(path) as store:
        assert store.boot > ledger.boot, f"boot {store.boot} comes again, after {ledger.boot}"
        contents = contents_of(store)
        allowed = ledger.allowed()
        assert contents in allowed, difference(contents, allowed[0])
        assert store.corrupt == []
        check_counters(store, contents)
        use(store, contents)
        used = contents_of(store)
    with MessageStore.open(path) as store:
        assert contents_of(store) == used, "the store changed over a clean restart"
        check_counters(store, used)
    assert verify(path).problems == []


def use(store: MessageStore, contents: Contents) -> None:
    """The store goes on: what is put now is there, what is settled goes, and dead records are cleared away."""
    writer = Writer(store)
    settled = list(contents)[::3]
    for queue_id, lane, position in settled:
        writer.settle(queue_id, position, lane=lane)
    position = writer.put(1, b"after the crash")
    writer.flush()
    clear_away(store)
    expected = {key: text for key, text in contents.items() if key not in set(settled)}
    assert contents_of(store) == {**expected, (1, 0, position): "after the crash"}, "the store cannot be used"


def difference(found: Contents, promised: Contents) -> str:
    """What is wrong, in few words."""
    missing, extra = promised.keys() - found.keys(), found.keys() - promised.keys()
    wrong = [key for key in found.keys() & promised.keys() if found[key] != promised[key]]
    return f"missing {sorted(missing)[:3]}, not promised {sorted(extra)[:3]}, other content {sorted(wrong)[:3]}"


def in_a_child(work: Callable[[], None]) -> str:
    """Do work in a process of its own; what went wrong, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS_PER_STATE)
        try:
            work()
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _child, status = os.waitpid(child, 0)
    return said or (f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "")


def crashes(directory: Path, events: list[Event], wanted: Wanted) -> Iterator[tuple[int, Remains, Ledger]]:
    """A share of the different disks, each with the number of the last event and the promises made by then.

    What lies between two marks belongs to one share, so that no disk is checked twice against the same promises.
    """
    each = max(len(Chance.KINDS), wanted.states // max(1, len(events)) + 1)
    disk, ledger, promises = Disk(directory), Ledger(), 0
    seen: set[int] = set()
    for number, event in enumerate(events):
        disk.follow(event)
        if event.kind == "m":
            ledger.follow(event.payload)
            promises += 1
            seen.clear()
        if promises % wanted.shares != wanted.share:
            continue
        choose, uncertain = random.Random(f"{wanted.seed}/{number}"), disk.uncertain
        for attempt in range(each if uncertain else 1):
            remains = disk.crash(Chance(Chance.KINDS[attempt % len(Chance.KINDS)], choose, uncertain))
            mark = fingerprint(remains)
            if mark not in seen:
                seen.add(mark)
                yield number, remains, ledger


class Wanted(argparse.Namespace):
    """What to check: see the options."""

    directory: Path
    log: Path
    states: int
    seed: int
    share: int
    shares: int
    first: bool


def wanted_from(arguments: list[str]) -> Wanted:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Check the crash states of a recording")
    parser.add_argument("directory", type=Path, help="where the recorded process worked")
    parser.add_argument("log", type=Path, help="its record")
    parser.add_argument("--states", type=int, default=1000, help="about how many states there are to be")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=int, default=0, help="which share of them to check")
    parser.add_argument("--shares", type=int, default=1)
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    return parser.parse_args(arguments, namespace=Wanted())


def main(arguments: list[str]) -> None:
    """Check a share of the states, and print what was found as a line of JSON."""
    wanted = wanted_from(arguments)
    events = list(read_events(wanted.log))
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="leveret-crash-", dir=memory if os.access(memory, os.W_OK) else None))
    failures, checked = [], 0
    for number, remains, ledger in crashes(wanted.directory, events, wanted):
        target = root / str(checked)
        write_out(remains, target)
        problem = in_a_child(partial(check, target / "messages", ledger))
        shutil.rmtree(target)
        checked += 1
        if problem:
            failures.append(f"after event {number} ({events[number].kind}): {problem}")
            if wanted.first:
                break
    shutil.rmtree(root)
    print(json.dumps({"states": checked, "failed": len(failures), "failures": failures[:20]}))


if __name__ == "__main__":
    main(sys.argv[1:])
