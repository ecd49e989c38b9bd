"""One cycle after the other: clients work, the broker is killed once or oftener, comes back, and is looked at."""

from __future__ import annotations

import gc
import random
import shutil
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from storage.offline.verify_messages import verify
from tests.durability.kills import phases
from tests.durability.kills.adapters.client_adapter import ClientAdapter
from tests.durability.kills.adapters.with_aio_pika import AioPikaAdapter
from tests.durability.kills.adapters.with_pika import PikaAdapter
from tests.durability.kills.plans import SCENARIOS
from tests.durability.kills.scenario import Traffic
from tests.durability.ledgers.client_ledger import Tally

ADAPTERS: tuple[type[PikaAdapter | AioPikaAdapter], ...] = (PikaAdapter, AioPikaAdapter)
SETTINGS = """[limits]
queue_window_messages = 16
"""
"""A window that is small, so that backlogs are paged."""
JOIN_SECONDS = 60.0
LAST_WORDS = 2000
"""Characters of the broker's log that a failure shows."""
OTHER_ADAPTER_CHANCE = 0.3
IN_STOP_CHANCE = 0.3
AGAIN_CHANCES = {"in a start": 0.2, "in recovery": 0.3, "while clients come back": 0.25}


class BrokenPromiseError(AssertionError):
    """A promise broken by a kill, and where to look."""


class Worker(threading.Thread):
    """Works through one life of the broker with a scenario and its client, which stays over lives."""

    def __init__(self, campaign: Campaign, scenario: Traffic, adapter: ClientAdapter) -> None:
        super().__init__(name=scenario.name, daemon=True)
        self.scenario = scenario
        self.adapter = adapter
        self.connected = threading.Event()
        self.failed_to_connect = False
        self.failure: BaseException | None = None
        self._campaign = campaign

    def run(self) -> None:
        try:
            self._work()
        except self.adapter.lost as error:
            if not self._campaign.dying.is_set():
                self._fail(error)
        except BaseException as error:
            self._fail(error)
        finally:
            self.failed_to_connect = not self.connected.is_set()
            self.connected.set()

    def _work(self) -> None:
        self.adapter.connect(self._campaign.dying.is_set)
        self.scenario.begin(self.adapter)
        self.connected.set()
        while not self._campaign.resting.is_set():
            self.scenario.step(self.adapter)
        self.scenario.rest(self.adapter)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._campaign.trouble.set()


class Campaign:
    """A broker on a data directory of its own, its clients, and the dice that decide when it is killed."""

    settings = SETTINGS

    def __init__(self, directory: Path, seed: int, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.seed = seed
        self.dying = threading.Event()
        self.resting = threading.Event()
        self.trouble = threading.Event()
        self.kills: Counter[str] = Counter()
        self.clients: Counter[str] = Counter()
        self._dice = random.Random(seed)
        self.cycles_begun = 0
        self._workers: list[Worker] = []
        settings = directory / "settings.toml"
        settings.write_text(self.settings)
        options = ("--config", str(settings))
        self.broker = BrokerProcess(
            directory / "data", *options, environment=None if environment is None else dict(environment)
        )
        self.scenarios = [make(random.Random(f"{seed} {number}")) for number, make in enumerate(SCENARIOS)]
        self._adapters: dict[str, ClientAdapter] = {}

    @property
    def tally(self) -> Tally:
        """Sum of all ledgers' tallies."""
        return Tally(*map(sum, zip(*(astuple(scenario.tally) for scenario in self.scenarios), strict=True)))

    def begin(self) -> None:
        """Start the broker and declare what the scenarios need."""
        self.broker.start()
        client = Client.connect(self.broker.address)
        for scenario in self.scenarios:
            scenario.set_up(client)
        client.close()

    def cycles(self, count: int) -> None:
        """Run `count` cycles."""
        for _ in range(count):
            self.cycle()

    def end(self) -> None:
        """Stop the broker in order, and verify its store as `leveret check` does."""
        self._forget_adapters()
        assert self.broker.stop() == 0, self.broker.log()
        report = verify(self.broker.data_dir / "messages")
        if report.problems or report.set_aside:
            raise self._broken([f"the store is not sound: {report}"])

    def abandon(self) -> None:
        """Let everything go, whatever state it is in."""
        self.dying.set()
        if self.broker.running:
            self.broker.kill()
        for worker in self._workers:
            worker.join(JOIN_SECONDS)
        self._forget_adapters()

    # --- one cycle ---

    def cycle(self) -> None:
        """Load, at least one kill, restart, and a look at everything. Raises BrokenPromiseError."""
        self.cycles_begun += 1
        self._set_to_work()
        self._await_connected()
        self._kill(phases.in_stop if self._dice.random() < IN_STOP_CHANCE else phases.under_load)
        self._kill_again()
        self._keep_a_copy()
        self.broker.start()
        self._inspect()

    def _set_to_work(self) -> None:
        self.dying.clear()
        self._workers = [Worker(self, scenario, self._adapter_of(scenario)) for scenario in self.scenarios]
        for worker in self._workers:
            worker.start()

    def _adapter_of(self, scenario: Traffic) -> ClientAdapter:
        """The client a scenario had before, which then comes back by itself, or another one."""
        adapter = self._adapters.get(scenario.name)
        if adapter is None or self._dice.random() < OTHER_ADAPTER_CHANCE:
            if adapter is not None:
                adapter.close()
            adapter = self._new_adapter(scenario)
            self._adapters[scenario.name] = adapter
        return adapter

    def _new_adapter(self, scenario: Traffic) -> ClientAdapter:
        library = self._dice.choice(ADAPTERS)
        self.clients[library.__name__] += 1
        return library(self.broker.address, transactional=scenario.transactional)

    def _await_connected(self) -> None:
        for worker in self._workers:
            if not worker.connected.wait(JOIN_SECONDS):
                raise self._broken([f"{worker.name} did not get a connection"])

    def _kill(self, phase: phases.Phase) -> None:
        """Kill it, and wait until all clients have noticed."""
        self.kills[phase(self.broker, self._dice, self.trouble.wait, self.dying)] += 1
        for worker in self._workers:
            worker.join(JOIN_SECONDS)
            if worker.is_alive():
                raise self._broken([f"{worker.name} waits for an answer still"])
            if worker.failure is not None:
                told = "".join(traceback.format_exception(worker.failure))
                raise self._broken([f"{worker.name}: {told}"]) from worker.failure
            worker.scenario.crashed()
            if worker.failed_to_connect:
                self._adapters.pop(worker.scenario.name).close()
        self._workers = []

    def _kill_again(self) -> None:
        """Perhaps also while it starts, or while the clients come back."""
        while self._dice.random() < AGAIN_CHANCES["in a start"]:
            self._kill(phases.in_start)
        while self._dice.random() < AGAIN_CHANCES["in recovery"]:
            self._kill(phases.in_recovery)
        while self._dice.random() < AGAIN_CHANCES["while clients come back"]:
            self._set_to_work()  # before it listens again
            self.broker.start()
            self._kill(phases.while_clients_come_back)

    def _inspect(self) -> None:
        problems = []
        for scenario in self.scenarios:
            client = Client.connect(self.broker.address, timeout=JOIN_SECONDS)
            try:
                problems += scenario.inspect(client)
            except (AssertionError, EOFError, OSError) as error:
                problems.append(f"{scenario.name}: {''.join(traceback.format_exception(error))}")
            finally:
                client.close()
        if problems:
            raise self._broken(problems)

    # --- when something is wrong ---

    @property
    def _copy(self) -> Path:
        return self.directory / "before the last start"

    def _keep_a_copy(self) -> None:
        """Copy the data directory as the kill has left it, before recovery."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.broker.data_dir, self._copy, ignore=shutil.ignore_patterns("*.sock"))

    def _broken(self, problems: list[str]) -> BrokenPromiseError:
        lines = [f"cycle {self.cycles_begun} of seed {self.seed}, kills so far: {dict(self.kills)}", *problems]
        lines.append(f"the broker's last words: {self.broker.log()[-LAST_WORDS:]}")
        lines.append(f"data: {self.broker.data_dir}; as the kill left it: {self._copy}")
        return BrokenPromiseError("\n".join(lines))

    def _forget_adapters(self) -> None:
        for adapter in self._adapters.values():
            adapter.close()
        self._adapters.clear()


@contextmanager
def running(directory: Path, seed: int, environment: Mapping[str, str] | None = None) -> Iterator[Campaign]:
    """A campaign that has begun. Garbage of its clients is collected at the end."""
    campaign = Campaign(directory, seed, environment)
    try:
        campaign.begin()
        yield campaign
    finally:
        campaign.abandon()
        gc.collect()


def summary(campaign: Campaign) -> str:
    """Kills by phase, clients, and what the ledgers have seen."""
    lines = [f"  {count:6} {phase}" for phase, count in campaign.kills.most_common()]
    clients = ", ".join(f"{count} {name}" for name, count in campaign.clients.most_common())
    seen = ", ".join(f"{getattr(campaign.tally, field.name):,} {field.name}" for field in fields(Tally))
    kills = f"{campaign.kills.total()} kills in {campaign.cycles_begun} cycles; messages: {seen}"
    return "\n".join(["kills:", *lines, f"clients: {clients}", kills])
