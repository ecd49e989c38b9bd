"""The walk of one publish through the code: from the socket to the confirm, one line per call.

A real server (transport, engine, committer and store, over a pair of sockets) is given one plain persistent message in
confirm mode, like one it has had before, and every function of this project that is called from the first byte to the
confirm is written down, in the event loop and in the committer's thread. Run it with `python -m tools.walk_publish`.

The last lines count calls, functions and files, of all and of the broker package alone (what the store does is one
call for a batch). A *move* is a call into another file than that of the call before it in its thread; it is a *return*
when that file is further up the stack: one that called, and is called back into. `--summary` prints those lines alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import trio

from broker.wire.frames import method_frame
from broker.wire.methods import BasicAck, ConfirmSelect, QueueDeclare
from harness.brokers.broker_server import ServerClient, serving
from harness.clients.amqp_peer import publish_frames
from harness.project import ROOT

PACKAGES = ("broker", "storage")
CONFIRMS = [{method_frame(1, BasicAck(tag, multiple)) for multiple in (False, True)} for tag in (1, 2)]
END_IN_THREAD = "CommitThread._tell"
"""The last call of the commit thread on the way to the confirm."""


class Call(NamedTuple):
    """One call: the file, the function's name with its class, how deep in its thread's stack, and which thread."""

    file: str
    function: str
    depth: int
    in_commit_thread: bool = False


class Walk:
    """The calls of a publish. Only between `begin` and `end` is anything written down."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._recording = False
        self._told = False
        self._names: dict[CodeType, tuple[str, str] | None] = {}
        self._depths: dict[int, int] = {}

    def begin(self) -> None:
        """Record calls from now on."""
        self._recording = True

    def end(self) -> None:
        """Write down nothing any more."""
        self._recording = False

    def observe(self, frame: FrameType, event: str, argument: object) -> None:
        """Handle a call or return: the hook for sys.setprofile."""
        if event not in ("call", "return") or not self._recording:
            return
        place = self._place(frame.f_code)
        if place is None:
            return
        thread = threading.get_ident()
        depth = self._depths.get(thread, 0)
        if event == "return":
            self._depths[thread] = max(0, depth - 1)
            return
        self._depths[thread] = depth + 1
        in_thread = threading.current_thread() is not threading.main_thread()
        if in_thread and self._told:
            return
        self.calls.append(Call(*place, depth, in_thread))
        if in_thread and place[1] == END_IN_THREAD:
            self._told = True

    def _place(self, code: CodeType) -> tuple[str, str] | None:
        if code not in self._names:
            path = Path(code.co_filename)
            file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
            ours = file.startswith(tuple(f"{package}/" for package in PACKAGES))
            comprehension = code.co_name.startswith("<") and code.co_name != "<lambda>"
            self._names[code] = (file, code.co_qualname) if ours and not comprehension else None
        return self._names[code]


class Summary(NamedTuple):
    """Counts of a walk."""

    calls: int
    functions: int
    files: int
    moves: int
    returns: int

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, {self.functions} functions, {self.files} files, "
            f"{self.moves} moves between files of which {self.returns} are returns"
        )


def summary(calls: Sequence[Call]) -> Summary:
    """Count a walk: the moves of each thread by themselves, whichever runs first."""
    walked = [_moves([call for call in calls if call.in_commit_thread is which]) for which in (False, True)]
    moves, returns = (sum(counts) for counts in zip(*walked, strict=True))
    return Summary(len(calls), len({call[:2] for call in calls}), len({call.file for call in calls}), moves, returns)


def _moves(calls: Sequence[Call]) -> tuple[int, int]:
    """Count the moves of one thread, and the returns among them."""
    stack: list[Call] = []
    moves = returns = 0
    here = ""
    for call in calls:
        while stack and stack[-1].depth >= call.depth:
            stack.pop()
        if here and call.file != here:
            moves += 1
            returns += any(caller.file == call.file for caller in stack)
        here = call.file
        stack.append(call)
    return moves, returns


@contextmanager
def observed(walk: Walk) -> Iterator[None]:
    """Record all calls in a walk, in this thread and in threads started meanwhile."""
    threading.setprofile(walk.observe)
    sys.setprofile(walk.observe)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def walk_publish(directory: Path) -> list[Call]:
    """Publish a message twice, each confirmed before anything else is sent; the calls of the second publish."""
    walk = Walk()
    frames = publish_frames(b"x" * 1024, key="q", persistent=True)
    with observed(walk):
        async with serving(directory, check_invariants=False) as server:
            client = await server.connect()
            await client.ask(QueueDeclare("q", False, True, False, False, False, {}))
            await client.ask(ConfirmSelect(False))
            await _confirmed(client, frames, 1)
            walk.begin()
            await _confirmed(client, frames, 2)
            walk.end()
    return walk.calls


async def _confirmed(client: ServerClient, frames: bytes, tag: int) -> None:
    await client.say(frames)
    answer = await client.stream.receive_some()
    assert answer in CONFIRMS[tag - 1], f"{answer!r} instead of a confirm"


def main() -> None:
    """Print the walk and its summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary", action="store_true", help="print the last line alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leveret-walk-") as directory:
        calls = trio.run(walk_publish, Path(directory))
    if not options.summary:
        for call in calls:
            print(f"{'  ' * call.depth}{call.function:<{60 - 2 * min(call.depth, 20)}} {call.file}")
    print(f"all: {summary(calls)}")
    print(f"broker: {summary([call for call in calls if call.file.startswith('broker/')])}")


if __name__ == "__main__":
    main()
