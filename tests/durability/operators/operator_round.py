"""A round: first lives, one to three steps of operators, and the verdict; all drawn from a seed."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

from tests.durability.faults.full_disks import SmallDisk, tmpfs
from tests.durability.kills.cycle import BrokenPromiseError
from tests.durability.operators import (
    copies_put_over,
    harmed_files,
    other_starts,
    second_place_steps,
    stopped_commands,
)
from tests.durability.operators.broker_lives import Clients, Live, live
from tests.durability.operators.operated_store import BALLAST, OperatedStore, chance
from tests.durability.operators.operator_step import Scene, Step
from tests.durability.operators.other_starts import LEFT_BYTES
from tests.durability.operators.round_verdict import USUAL, judge

STEPS: tuple[Step, ...] = (
    *stopped_commands.STEPS,
    *other_starts.STEPS,
    *copies_put_over.STEPS,
    *second_place_steps.STEPS,
    *harmed_files.STEPS,
)
DISK_BYTES = 160 << 20
TRACEBACK_LINES = 4
"""Frames of the traceback in a failure."""
STEPS_MAX = 4
FULL_CHANCE, FULL_AND_HARMED_CHANCE, EMPTY_CHANCE = 0.3, 0.5, 0.3
"""Probabilities that the room on the disk changes before a step: harm finds a full disk more often."""
AGAIN_CHANCE = 0.6
"""Probability of another life after the steps that have put a copy in place: harm may show only then."""
AGAIN = ("a copy put over", "a copy in place", "restore", "restore from a place", "a standby promoted", "move")


def fill(scene: Scene, *, ballast: bool) -> None:
    """Somebody fills the disk; what is full has often had its ballast given away before."""
    store, leave = scene.store, scene.dice.choice(LEFT_BYTES)
    if not ballast:
        (store.data / BALLAST).unlink(missing_ok=True)
    store.tell(f"somebody fills the disk but for {leave >> 10} KiB{'' if ballast else ', the ballast is gone'}")
    store.fill(leave)


def empty(scene: Scene) -> None:
    """There is room again."""
    scene.store.tell("there is room again")
    scene.store.empty()


FULL = (
    Step("a full disk", 2, partial(fill, ballast=True), lambda store: not store.full),
    Step("a full disk without ballast", 3, partial(fill, ballast=False), lambda store: not store.full),
)
EMPTY = Step("room on the disk", 1, empty, lambda store: store.full)
NAMED = {step.name: step for step in (*STEPS, *harmed_files.OF_ONE, *FULL, EMPTY)}


class Round:
    """One directory, what operators do to it, and what must hold in the end. `steps`: their names, else drawn."""

    def __init__(self, store: OperatedStore, seed: int, steps: Sequence[str] = ()) -> None:
        self.store = store
        self.done = Counter[str]()
        self._seed = seed
        self._steps = [NAMED[name] for name in steps] or self._drawn()
        self._clients = Clients(self._dice("clients"))

    def _dice(self, what: str) -> random.Random:
        return random.Random(f"{self._seed} {what}")

    def _drawn(self) -> Iterator[Step]:
        """Steps that may be drawn one after the other, with the room on the disk as it comes."""
        dice = self._dice("steps")
        for _ in range(dice.randint(1, STEPS_MAX)):
            if self.store.full:
                yield from [EMPTY] if chance(dice, EMPTY_CHANCE) else ()
            elif chance(dice, FULL_AND_HARMED_CHANCE if self.store.harms else FULL_CHANCE):
                yield dice.choice(FULL)
            possible = [step for step in STEPS if step.may(self.store)]
            (step,) = dice.choices(possible, [step.weight for step in possible])
            yield step
            if step.name in AGAIN and chance(dice, AGAIN_CHANCE):
                yield NAMED["a life"]

    def go_through(self) -> None:
        """All of it. Raises BrokenPromiseError."""
        try:
            self._first_lives()
            for number, step in enumerate(self._steps):
                if not step.may(self.store):  # it was named, and this round's lives have not made what it needs
                    continue
                self.store.keep_earlier()
                step.do(Scene(self.store, self._clients, self._dice(f"step {number}")))
                self.done["steps"] += 1
                if self.store.over:
                    break
            self.done["refused"] += judge(self.store, self._dice("verdict"))
        except BrokenPromiseError:
            raise
        except Exception as error:
            shown = "".join(traceback.format_exception(error)[-TRACEBACK_LINES:])
            raise self.store.broken(f"{type(error).__name__}: {error}\n{shown}") from error

    def _first_lives(self) -> None:
        """One or two, the first of which may have its directory copied."""
        for number in range(self._dice("lives").randint(1, 2)):
            dice = self._dice(f"life {number}")
            copied = chance(dice, 0.5)
            scene = Scene(self.store, self._clients, dice)
            (copies_put_over.life_with_copy if copied else other_starts.live_on)(scene)
            self.done["lives"] += 1


@cache
def another_store() -> Path:
    """The directory of a store that has nothing to do with any other: one for each process."""
    home = Path(tempfile.mkdtemp(prefix="leveret-another-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    store = OperatedStore(home, SmallDisk(home / "disk"), {}, lambda: home, limited=False)
    live(store, Clients(random.Random(0)), USUAL, Live(2, stops=False))
    return store.data


@contextmanager
def prepared(home: Path, seed: int, environment: Mapping[str, str], steps: Sequence[str] = ()) -> Iterator[Round]:
    """A round on a small disk of its own, where one can be mounted. Its files are kept if a promise is broken."""
    with tmpfs(home, DISK_BYTES) as mounted:
        store = OperatedStore(home, SmallDisk(home / "disk"), environment, another_store, limited=not mounted)
        try:
            yield Round(store, seed, steps)
        except BaseException:
            store.empty()
            with suppress(OSError):
                shutil.copytree(store.root, home / "at the end", ignore=shutil.ignore_patterns("*.sock", "ballast"))
            raise
