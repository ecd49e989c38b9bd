"""A broker, its standbys and their place: they are killed, cut off, late, and change places.

Confirms wait for the place. Whatever a broker has confirmed, by its own clock before it was taken over from or behind
that, has to be on the one that was promoted; and in the end one machine serves, and no other one does or may start.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import final

from tests.simulation.second_place.confirmed_publisher import Publisher
from tests.simulation.second_place.machine import Machine, Stage
from tests.simulation.second_place.place import Place
from tests.simulation.second_place.turn_taking import taking_turns
from tests.simulation.world.disk import Disk
from tests.simulation.world.small_world import governing
from tests.simulation.world.virtual_time import Agenda, Times
from tests.simulation.world.world import SHARED_MEMORY

NAMES = "abc"
LIFE, SETTLING = 60_000, 120_000
"""Virtual milliseconds in which things go wrong, and in which all has to be well again."""
MISHAP_MAX, TROUBLE_MAX, BACK_MAX = 3000, 12_000, 4000
"""Longest times between two mishaps, of one, and until a machine is started again."""
PROMOTIONS_MAX = 2
TRACE = 40


class Failed(AssertionError):
    """A run has found something: its seed, what, and the last things that happened."""


@final
class FencedWorld:
    """One run, all of it from its seed."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self._tell = tell
        self._times = Times()
        self._agenda = Agenda(self._times)
        self._directory = Path(
            tempfile.mkdtemp(prefix="leveret-fenced-", dir=SHARED_MEMORY if SHARED_MEMORY.exists() else None)
        )
        self._chance = Random(f"{seed}/mishaps")
        self._place = Place(Random(f"{seed}/place"), self._times)
        self._numbers = count()
        self._publishers: list[tuple[Machine, Publisher]] = []
        self._recent: deque[str] = deque(maxlen=TRACE)
        self._digest = hashlib.sha256()
        self._promotions = self._chance.randint(1, PROMOTIONS_MAX)
        self._calm = False
        machines = [self._machine(name) for name in NAMES]
        self._owner, self._standbys, self._old = machines[0], machines[1:], list[Machine]()

    def _machine(self, name: str) -> Machine:
        chance = Random(f"{self.seed}/{name}")
        return Machine(name, self._directory / name, self._agenda, self._place, chance, self._note, self._promoted)

    @property
    def hash(self) -> str:
        """Hash that tells this run from another one."""
        return self._digest.hexdigest()[:16]

    def _note(self, text: str) -> None:
        line = f"{self._times.now / 1000:.3f} {text}"
        self._digest.update(line.encode())
        self._recent.append(line)
        if self._tell is not None:
            self._tell(line)

    def run(self) -> None:
        """Live, settle, and judge. Raises Failed."""
        disabled, _ = logging.root.manager.disable, logging.disable(logging.CRITICAL)
        with taking_turns(self._times), governing(self._times, Disk(Random(self.seed), self._directory)):
            try:
                self._live()
                self._settle()
                self._judge()
            except Exception as error:
                lines = "\n  ".join(self._recent)
                raise Failed(f"seed {self.seed}, {self._times.now} ms: {error!r}\n  {lines}") from error
            finally:
                for machine in (self._owner, *self._standbys, *self._old):
                    machine.kill()
                shutil.rmtree(self._directory, ignore_errors=True)
                logging.disable(disabled)

    # A run

    def _live(self) -> None:
        self._start(self._owner)
        for standby in self._standbys:
            standby.follow()
        self._promote_later()
        self._agenda.after(0, self._mishap)
        self._go_on_until(LIFE)

    def _go_on_until(self, at: int) -> None:
        while self._agenda.next_due <= at:
            self._agenda.go_on()
        self._times.now = at

    def _settle(self) -> None:
        """Let everybody reach the place, have what is left to promote promoted, and wait for the owner to serve."""
        self._calm, self._place.full, self._place.late = True, False, False
        for machine in (self._owner, *self._standbys, *self._old):
            machine.target.reached, machine.target.slow = True, False
        self._go_on_until(LIFE + SETTLING)
        assert not self._promotions, "a standby is not promoted"
        if self._owner.stage is Stage.DOWN:
            self._start(self._owner)
            self._go_on_until(LIFE + SETTLING + BACK_MAX)
        self._last_publisher().take_all()
        self._go_on_until(LIFE + 2 * SETTLING)

    def _last_publisher(self) -> Publisher:
        return [publisher for machine, publisher in self._publishers if machine is self._owner][-1]

    def _judge(self) -> None:
        assert self._owner.stage is Stage.SERVES, (
            f"{self._owner.name} is {self._owner.stage.value}: {self._owner.refusal}"
        )
        for machine in self._old:
            assert machine.stage is Stage.DOWN, f"{machine.name} was taken over from, and {machine.stage.value}"
            assert "is owned by another" in machine.refusal, f"{machine.name}: {machine.refusal!r}"
        confirmed = [number for _, publisher in self._publishers for number in publisher.confirmed]
        found = self._last_publisher().found
        assert found is not None, "the queue does not come to its end"
        missing = sorted(set(confirmed) - set(found))
        assert not missing, f"confirmed as shipped, and not on the promoted broker: {missing[:10]}"
        assert len(found) == len(set(found)), "messages are there twice"
        self.counts.update(runs=1, messages=len(found), confirmed=len(confirmed), brokers=len(self._publishers))

    # What happens

    def _start(self, machine: Machine) -> None:
        machine.start()
        self._agenda.after(1, lambda: self._publish_to(machine))

    def _publish_to(self, machine: Machine) -> None:
        """Publish as soon as it serves."""
        if machine.process is not None and machine.stage is Stage.SERVES:
            chance = Random(f"{self.seed}/publisher {len(self._publishers)}")
            self._publishers.append((machine, Publisher(machine.process, self._agenda, chance, self._numbers)))
        elif machine.stage is Stage.STARTS:
            self._agenda.after(10, lambda: self._publish_to(machine))

    def _promote_later(self) -> None:
        if self._promotions:
            standby = self._standbys[0]
            self._agenda.after(self._chance.randint(5000, LIFE // 2), lambda: self._promote(standby))

    def _promote(self, standby: Machine) -> None:
        """Promote a standby, whatever the owner does; try again where it is down or has no base."""
        if standby is self._owner:
            return
        if standby.stage is Stage.FOLLOWS and not standby.promoting:
            self._note(f"{standby.name} is to be promoted")
            standby.promoting = True
        self._agenda.after(MISHAP_MAX, lambda: self._promote(standby))

    def _promoted(self, machine: Machine) -> None:
        self._promotions -= 1
        self.counts["promotions"] += 1
        self._standbys.remove(machine)
        self._old.append(self._owner)
        self._owner = machine
        self._start(machine)
        self._promote_later()

    def _mishap(self) -> None:
        if self._calm:
            return
        machine = self._chance.choice((self._owner, self._owner, *self._standbys, *self._old))
        act = self._chance.choice((self._kill, self._cut_off, self._slow, self._pause, self._late, self._full))
        act(machine)
        self._agenda.after(self._chance.randint(100, MISHAP_MAX), self._mishap)

    def _kill(self, machine: Machine) -> None:
        self.counts["kills"] += 1
        follows = machine in self._standbys
        machine.kill()

        def come_back() -> None:
            if machine.stage is Stage.DOWN and follows == (machine in self._standbys):
                machine.follow() if follows else self._start(machine)

        self._agenda.after(self._chance.randint(100, BACK_MAX), come_back)

    def _cut_off(self, machine: Machine) -> None:
        self._note(f"the place is gone for {machine.name}")
        machine.target.reached = False

        def reached() -> None:
            machine.target.reached = True

        self._agenda.after(self._chance.randint(100, TROUBLE_MAX), reached)

    def _slow(self, machine: Machine) -> None:
        machine.target.slow = not machine.target.slow

    def _pause(self, machine: Machine) -> None:
        self._note(f"{machine.name} hangs")
        machine.pause(self._chance.randint(100, TROUBLE_MAX))

    def _late(self, _machine: Machine) -> None:
        self._place.late = not self._place.late

    def _full(self, _machine: Machine) -> None:
        self._note("the place is full")
        self._place.full = True

        def empty() -> None:
            self._place.full = False

        self._agenda.after(self._chance.randint(100, TROUBLE_MAX // 4), empty)
