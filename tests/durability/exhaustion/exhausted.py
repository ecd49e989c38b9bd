"""One round: a broker and its clients, what goes wrong in it, and what must hold at its end."""

from __future__ import annotations

import gc
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from broker.admin.protocol import AdministrationError
from harness.waiting import eventually
from leveret.testing.power.c_compiler import compiler
from leveret.testing.power.preload import library
from tests.durability.exhaustion.backlogs import Backlog, GoodClient
from tests.durability.exhaustion.plan import DESCRIPTORS, MEMORY_BYTES, WATERMARK, Plan, Trouble
from tests.durability.exhaustion.troubles import FairTime, MemoryWatch, Troubles, control_group
from tests.durability.faults.full_disks import KINDS, LimitedFiles, SmallDisk
from tests.durability.faults.injector import SLOW_SYNCS, SOURCE, Disk
from tests.durability.kills.adapters.client_adapter import ClientAdapter
from tests.durability.kills.adapters.with_wire_client import WireAdapter
from tests.durability.kills.cycle import BrokenPromiseError, Campaign
from tests.durability.kills.scenario import Traffic

SETTINGS = """[limits]
queue_window_messages = 16
queue_window_bytes = 1048576
[memory]
{memory}
check_interval_seconds = 0.05
[disk]
free_limit_bytes = {free_limit}
check_interval_seconds = 0.05
[shutdown]
timeout_seconds = 60.0
"""
"""Windows that are small, so that backlogs are on disk, and limits that are looked at often."""
MENDED_SECONDS = 120.0
"""Seconds from the end of all trouble within which each thing has to be well again."""


SCRIPTED_CHANCE = 0.3
LAST_LINES, FLOODED = 20, "client unexpectedly closed TCP connection"
"""Lines of the broker's log in a failure, and the text that a flood fills the log with."""


class Round(Campaign):
    """A campaign of kills whose broker is in narrow surroundings, and whose cycle is one plan."""

    def __init__(
        self,
        directory: Path,
        plan: Plan,
        disk: Path | None,
        group: Path | None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`disk` is the small file system, if there is one, `group` the control group."""
        part, size = f"high_watermark = {WATERMARK}", f"high_watermark_bytes = {int(MEMORY_BYTES * WATERMARK)}"
        self.settings = SETTINGS.format(memory=part if group else size, free_limit=plan.free_limit_bytes)
        super().__init__(directory, plan.seed, environment)
        self.plan = plan
        self.troubles_met = 0
        self.mended_seconds = MENDED_SECONDS
        self.fair_time = FairTime()
        self._narrow(disk, group)
        self.scenarios = [self.scenarios[number] for number in plan.scenarios]
        self.backlog = Backlog(random.Random(f"{plan.seed} backlog"), plan.size.backlog_messages)
        self.scenarios += [self.backlog, GoodClient(random.Random(f"{plan.seed} good"), self.fair_time)]
        self.memory = MemoryWatch(self.broker)

    def _narrow(self, directory: Path | None, group: Path | None) -> None:
        broker = self.broker
        disk = SmallDisk(directory) if directory else LimitedFiles(self.directory, lambda: broker.pid)
        broker.data_dir = disk.directory / "data"
        broker.check_invariants = False
        joins = f"echo $$ > {group}/cgroup.procs; " if group else ""
        broker.prefix = ("sh", "-c", f'{joins}ulimit -n {DESCRIPTORS}; exec "$0" "$@"')
        syncs = None
        if compiler():
            syncs = Disk(library(SOURCE), broker.data_dir, signs=self.directory)
            broker.environment = syncs.environment(SLOW_SYNCS, *filter(None, [broker.environment]))
        self.troubles = Troubles(broker, disk, syncs, self.fair_time)

    def _new_adapter(self, scenario: Traffic) -> ClientAdapter:
        if isinstance(scenario, Backlog | GoodClient) or self._dice.random() < SCRIPTED_CHANCE:
            return WireAdapter(self.broker.address, transactional=scenario.transactional)
        return super()._new_adapter(scenario)

    # --- what happens ---

    def go_through(self) -> None:
        """The whole plan. Raises BrokenPromiseError."""
        try:
            self.begin()
            for number, outage in enumerate(self.plan.outages):
                live = self._last_life if number == len(self.plan.outages) - 1 else self._earlier_life
                self._set_to_work()
                self._await_connected()
                self._kill(lambda *_, live=live: live())
                self._keep_a_copy()
                self.trouble.wait(outage)
                self.broker.start()
            self._inspect()
            self.end()
            self._expect(self.memory.highest <= MEMORY_BYTES, f"{self.memory.highest >> 20} MiB of memory were taken")
            self._expect("Traceback" not in self.broker.log(), "there is a traceback in the log")
        except BrokenPromiseError:
            raise
        except (AssertionError, AdministrationError, OSError, EOFError) as error:
            raise self._broken([f"{type(error).__name__}: {error}"]) from error
        finally:
            self.memory.end()

    def _earlier_life(self) -> str:
        """Troubles, and a kill in the midst of them. The disk stays as full as it is."""
        self._live(self.plan.lives[0])
        self.dying.set()
        self.broker.kill()
        self.troubles.died()
        return "in trouble"

    def _last_life(self) -> str:
        """Troubles; then all of them are mended, and everything must be well again."""
        self._live(self.plan.lives[-1])
        self.troubles.mend()
        if not self.trouble.is_set():
            self._expect_well()
        self.dying.set()
        if self.plan.stops and not self.trouble.is_set():
            assert self.broker.stop() == 0, "the stop was not clean"
        else:
            self.broker.kill()
        self.resting.clear()
        return "mended"

    def _live(self, troubles: tuple[Trouble, ...]) -> None:
        for trouble in troubles:
            if self.trouble.is_set():
                return
            self.troubles.begin(trouble.kind, trouble.amount)
            self.troubles_met += 1
            self.trouble.wait(trouble.seconds)

    def _expect_well(self) -> None:
        """Alarms are down, every publish is answered, and there is room for one more client."""

        def alarms_are_down() -> bool:
            return self.trouble.is_set() or not self.broker.tell("status")["alarms"]

        eventually(alarms_are_down, "the alarms to end with their causes", seconds=self.mended_seconds)
        self.resting.set()
        for worker in self._workers:
            worker.join(self.mended_seconds)
            assert not worker.is_alive(), f"{worker.name} has no answers {self.mended_seconds:g} s after all was mended"

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise self._broken([otherwise])

    # --- when something is wrong ---

    def _broken(self, problems: list[str]) -> BrokenPromiseError:
        size = " --small" if self.plan.size.clients == 1 else ""
        command = f"python -m tests.durability.exhaustion --seed {self.seed} --rounds 1{size}"
        lines = [line for line in self.broker.log().splitlines() if FLOODED not in line]
        words = "\n".join(["the broker's last words:", *lines[-LAST_LINES:]])
        where = f"data: {self._kept}; as the last kill left it: {self._copy}"
        return BrokenPromiseError("\n".join([str(self.plan), words, *problems, where, command]))

    @property
    def _kept(self) -> Path:
        return self.directory / "at the end"

    def abandon(self) -> None:
        """Let everything go; what is on the small disk is kept."""
        with suppress(OSError):
            self.troubles.mend()
        super().abandon()
        with suppress(OSError):
            shutil.copytree(self.broker.data_dir, self._kept, ignore=shutil.ignore_patterns("*.sock"))


@contextmanager
def prepared(directory: Path, plan: Plan, environment: Mapping[str, str] | None = None) -> Iterator[Round]:
    """A round in the surroundings of its plan, as far as they can be had here. Garbage is collected at the end."""
    with ExitStack() as surroundings:
        mounted = surroundings.enter_context(KINDS[plan.file_system](directory, plan.size.disk_bytes))
        disk = directory / "disk" if mounted else None
        group = None
        if plan.control_group and disk:
            group = surroundings.enter_context(control_group(f"leveret-{directory.name}", MEMORY_BYTES))
        one = Round(directory, plan, disk, group, environment)
        try:
            yield one
        except BaseException:
            one.abandon()
            raise
        finally:
            gc.collect()
