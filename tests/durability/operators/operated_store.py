"""A data directory that operators do things to: its disk, what is owed of it, and why it may refuse.

Processes work on it one after the other, each recorded, so that it can be cut short at any of its writes.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from broker.wire.methods import BasicDeliver
from harness.brokers.copied_commands import run_text
from leveret.testing.power.disk_record import recorded
from leveret.testing.power.disk_states import Disk, write_out
from tests.durability.faults.full_disks import SmallDisk, limit_files
from tests.durability.kills.cycle import BrokenPromiseError
from tests.durability.ledgers.conversation import Said
from tests.durability.ledgers.message_ledger import read_from_log
from tests.durability.ledgers.topology import READER
from tests.durability.operators.life_history import LifeHistory
from tests.durability.operators.step_record import Cut, StepRecord

ERROR = "leveret: error: "
BALLAST = "messages/ballast"
ALLOCATED = (BALLAST, "messages/journal")
"""Files that have their room on the disk, whatever is in them."""
READERS = "messages/lock.mdb"
"""LMDB's table of readers: written through memory, so no record has it, and a process that is killed leaves it."""
FULL = re.compile(r"disk is full|no room|no space|too large|full\b", re.IGNORECASE)
NEVER_RUN = ("no broker has run on the data directory", "does not exist", "its first start was cut short")
"""Refusals of a directory whose first start was cut short."""
GROWS = re.compile("disk I/O error|File too large")
"""Errors of SQLite and LMDB about a file that cannot grow, on a disk that has room."""
WRONG_REMEDY = re.compile("(see|check) that this user may")
"""A remedy that is wrong for a full disk."""


class Refusal(NamedTuple):
    """A process's end without its work done: one line that says why, or else its output. Or it was `cut`."""

    line: str
    output: str = ""
    cut: bool = False


class Harm(NamedTuple):
    """Something that was done to files, by the names that a line may name one of; `undo` puts them back, if one can.

    `of_journal`: the broker can start with what LMDB has, where somebody accepts that.
    """

    what: str
    names: tuple[str, ...]
    undo: Callable[[], None] | None
    of_journal: bool = False


class Keepsake(NamedTuple):
    """A copy of a data directory, and what was said until it was made. `whole`: with journal and locks."""

    path: Path
    history: LifeHistory
    whole: bool


class OperatedStore:
    """One data directory over all that is done to it. `home` is where everything is; it is kept when a promise breaks.

    `histories` are what may have been said to the store that is there: several, where a crash has left it open whether
    another one was put in its place. `another` makes a store of other history, once. `limited`: no small disk can be
    mounted, so the files of its processes cannot grow when it is full.
    """

    def __init__(
        self, home: Path, disk: SmallDisk, environment: Mapping[str, str], another: Callable[[], Path], limited: bool
    ) -> None:
        self.home = home
        self.disk = disk
        self.environment = dict(environment)
        self.another = another
        self.root = disk.directory / "root"
        self.data = self.root / "data"
        self.histories = [LifeHistory()]
        self.keepsakes: list[Keepsake] = []
        self.places: list[Keepsake] = []
        """Second places, each with what was said until nothing more was shipped there."""
        self.earlier: list[Path] = []
        self.harms: list[Harm] = []
        self.told: list[str] = []
        self.offsets: dict[int, int] = {}
        """Messages that readers of the stream have seen, by offset, whatever was restored since."""
        self.left_bytes: int | None = None
        self.machine_crashed = False
        self.over = False
        """Nothing more is to be done: the last batches were given up."""
        self.log = home / "log"
        self._numbers = count(1)
        self.limited = limited
        self.root.mkdir(parents=True)

    def number(self) -> int:
        """Another number for the name of a file."""
        return next(self._numbers)

    def tell(self, what: str) -> None:
        """Note what is done next."""
        self.told.append(what)

    def broken(self, problem: str) -> BrokenPromiseError:
        """A promise that does not hold, after everything that was done."""
        return BrokenPromiseError(
            "\n".join([*(f"  {number}. {what}" for number, what in enumerate(self.told, 1)), problem])
        )

    # Room on the disk

    @property
    def full(self) -> bool:
        """Somebody else has the room of the disk."""
        return self.left_bytes is not None

    def fill(self, leave: int, pid: int = 0) -> None:
        """Somebody else takes all room but `leave` bytes, until `empty`; of a process, where it runs already."""
        self.left_bytes = leave
        if not self.limited:
            self.disk.fill(leave=leave)
        elif pid:
            limit_files(pid, self._message_bytes + leave)

    def empty(self) -> None:
        """There is room again."""
        self.left_bytes = None
        self.disk.empty()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Command prefix of a process without room, if no small disk can be mounted: its files cannot grow."""
        if self.left_bytes is None or not self.limited:
            return ()
        return ("sh", "-c", f'ulimit -f {(self._message_bytes + self.left_bytes) // 512}; exec "$0" "$@"')

    @property
    def _message_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.data / "messages").glob("data.mdb"))

    # Histories

    @property
    def history(self) -> LifeHistory:
        """The conversation, as far as it is known."""
        return self.histories[0]

    def begin_life(self) -> None:
        """A broker starts."""
        for history in self.histories:
            history.begin_life()

    def add(self, said: Sequence[Said]) -> None:
        """Clients said this, and the broker."""
        for history in self.histories:
            history.add(said)

    def see(self, said: Iterable[Said]) -> None:
        """Readers have seen this of the stream. Raises BrokenPromiseError where an offset was given out twice."""
        for one in said:
            if isinstance(one.what, BasicDeliver) and one.what.consumer_tag == READER and one.message is not None:
                offset, number = read_from_log(one.message)
                if self.offsets.setdefault(offset, number) != number:
                    raise self.broken(f"offset {offset} of the stream was {self.offsets[offset]}, and is {number} now")

    def settle(self, left: int = 0) -> None:
        """LMDB has everything but what came with the last `left` things that were said."""
        for history in self.histories:
            history.settle(left)

    def keep(self, path: Path, *, whole: bool) -> None:
        """A copy was made, of what is there now; of which somebody may put back one file, too."""
        self.keepsakes.append(Keepsake(path, self.history.copy(), whole))
        self.earlier.append(path)

    def forget_copies(self, first: int) -> None:
        """Forget the copies from the `first` on: the crash came before they were made, so nobody has them."""
        for keepsake in self.keepsakes[first:]:
            self.earlier.remove(keepsake.path)
        del self.keepsakes[first:]

    def keep_earlier(self) -> None:
        """Remember the files as they are, for who puts one of them back later."""
        copy = self.home / f"earlier-{self.number()}"
        copy_directory(self.data, copy, without=("ballast",))
        self.earlier.append(copy)

    # Processes

    def recorder(self, *, sockets: bool = False) -> tuple[StepRecord, dict[str, str]]:
        """A record for the next process, and the environment that it needs.

        It is empty, and the process cannot be cut, where no file may grow: neither could the record.
        """
        log = self.home / f"record-{self.number()}"
        if self.full and self.limited:
            return StepRecord(log), dict(self.environment)
        return StepRecord(log), {**self.environment, **recorded(self.root, log, sockets=sockets)}

    def found(self) -> Disk:
        """The disk as the next process finds it."""
        return Disk.found(self.root)

    def crash(self, record: StepRecord, before: Disk, cut: Cut) -> int | None:
        """Leave on the disk what a cut leaves; the number of the event it came after, None where nothing changed."""
        place = record.place(cut)
        if place is None:
            return None
        remains = record.remains(before, cut, place)
        left, self.machine_crashed = self.left_bytes, self.machine_crashed or cut.of_machine
        self.empty()
        readers = self.data / READERS
        kept = readers.read_bytes() if readers.is_file() and not cut.of_machine else None
        shutil.rmtree(self.root)
        before_umask = os.umask(0o077)
        try:
            write_out(remains, self.root)
            self.data.mkdir(exist_ok=True)
        finally:
            os.umask(before_umask)
        if kept is not None and readers.parent.is_dir():
            readers.write_bytes(kept)
        for name in ALLOCATED:
            allocate(self.data / name)
        if left is not None:
            self.fill(left)
        return place

    def command(self, arguments: Sequence[str], cut: Cut | None = None) -> Refusal | None:
        """Run a command on the stopped directory to its end or up to a cut; None unless it was refused.

        Raises BrokenPromiseError for an end that no operator understands.
        """
        before = self.found() if cut else None
        record, environment = self.recorder()
        try:
            ended = run_text(*arguments, "--data-dir", str(self.data), environment=environment, prefix=self.prefix)
        except subprocess.TimeoutExpired as error:
            raise self.broken(f"the command has not ended in {error.timeout:g} s") from error
        with self.log.open("a") as log:
            log.write(
                f"$ leveret {' '.join(arguments)}\n{ended.stdout[-2000:]}{ended.stderr}exit code {ended.returncode}\n"
            )
        if cut is not None and before is not None and self.crash(record, before, cut) is not None:
            return Refusal("", cut=True)
        return self.refusal(ended.returncode, ended.stderr, ended.stdout)

    def refusal(self, code: int, errors: str, output: str = "") -> Refusal | None:
        """Return the refusal of a process, if it refused. Raises BrokenPromiseError if it does not say in one line
        what is wrong."""
        if code < 0:
            raise self.broken(f"killed by signal {signal.Signals(-code).name}")
        if "Traceback" in errors:
            raise self.broken(f"a traceback\n{errors[-3000:]}")
        if code == 0:
            return None
        lines = [line.removeprefix(ERROR) for line in errors.splitlines() if line.startswith(ERROR)]
        return Refusal(lines[-1] if lines else "", " ".join((output + errors)[-1500:].split()))

    # Refusals

    def expect_reason(self, refusal: Refusal | None) -> None:
        """A start that was refused has said why. Raises BrokenPromiseError."""
        if refusal is not None and not refusal.cut:
            self.tell(f"  refused: {refusal.line or refusal.output}")
            self.expect_cause(refusal)

    def expect_cause(self, refusal: Refusal) -> None:
        """A refusal names what was done to the directory. Raises BrokenPromiseError."""
        line = refusal.line
        names = {name for harm in self.harms for name in harm.names}
        if any(re.search(rf"\b{re.escape(name)}", line) for name in names) and not WRONG_REMEDY.search(line):
            return
        if any(words in line for words in NEVER_RUN) and not self.harms and not self._made:
            return
        says_full = FULL.search(line) or (self.limited and GROWS.search(line))
        if self.full and says_full and not WRONG_REMEDY.search(line):
            return
        causes = [harm.what for harm in self.harms] + (["the disk is full"] if self.full else [])
        raise self.broken(f"refused, and does not say why ({'; '.join(causes) or 'nothing is wrong'}): {line}")

    @property
    def _made(self) -> bool:
        """There is all that the first start makes, which a crash may have cut short."""
        return all((self.data / name).exists() for name in ("definitions.sqlite", "messages/data.mdb"))

    def opened(self) -> None:
        """The stores were opened: what was done to them was taken as it is, and cannot be undone any more."""
        self.harms.clear()


def allocate(path: Path) -> None:
    """Have a file take the room of its size on the disk."""
    if path.is_file() and (size := path.stat().st_size):
        with path.open("rb+") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, size)


def copy_directory(source: Path, target: Path, *, without: tuple[str, ...] = ()) -> None:
    """Copy as `cp -a` does, but for sockets; over what is there."""

    def ignored(directory: str, names: list[str]) -> list[str]:
        return [name for name in names if name in without or (Path(directory) / name).is_socket()]

    shutil.copytree(source, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    for name in ALLOCATED:
        allocate(target / name)


def chance(dice: random.Random, of: float) -> bool:
    """True with this probability."""
    return dice.random() < of
