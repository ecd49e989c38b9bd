"""A life of a broker on an operated store: clients work in turns, then it stops, is killed, or is cut at any write."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any, NamedTuple

from broker.config import Config, StoreSettings
from broker.wire.methods import ConnectionBlocked, ConnectionClose
from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from leveret.testing.power.disk_states import Disk
from tests.durability.faults.life import Renewer
from tests.durability.ledgers.topology import WINDOW_BYTES, WINDOW_MESSAGES
from tests.durability.ledgers.workload import Publisher, Transactor, Worker
from tests.durability.operators.life_history import LifeHistory
from tests.durability.operators.operated_store import OperatedStore, Refusal, copy_directory
from tests.durability.operators.step_record import Cut, StepRecord

JOURNALS = (16 << 10, 16 << 10, 64 << 10, 1 << 20)
BLOCKED_SECONDS = 1.5
"""Seconds after which a client on a full disk counts as blocked: only publishers are told."""
WAIT_SECONDS = 20.0
ACCEPTS = "accept_loss"

Settings = Mapping[str, Mapping[str, Any]]


class BlockedError(Exception):
    """The disk is full, and the broker takes nothing more of this client."""


class PatientClient(Client):
    """A client that gives up where the disk is full."""

    store: OperatedStore | None = None

    def receive(self, *, channel: int = 1, timeout: float | None = None) -> Any:
        full = self.store is not None and self.store.full
        try:
            item = super().receive(channel=channel, timeout=BLOCKED_SECONDS if full else timeout or WAIT_SECONDS)
        except TimeoutError as error:
            raise BlockedError if full else error from error
        if isinstance(item, ConnectionBlocked) or (full and isinstance(item, ConnectionClose)):
            raise BlockedError
        return item


class Turn(NamedTuple):
    """A running broker was given another store's contents, between two events of its record."""

    begun: int
    done: int
    history: LifeHistory


class Live(NamedTuple):
    """The course of a life: the clients' steps, the fault after half of them, and the end.

    `first` is done before clients come, `midway` when half of their steps are done and they are silent. `stops`: in
    order, unless it is `cut`.
    """

    steps: int
    stops: bool
    cut: Cut | None = None
    fills: int | None = None
    first: Callable[[BrokerProcess, StepRecord], Turn] | None = None
    midway: Callable[[BrokerProcess], None] | None = None

    def __str__(self) -> str:
        end = str(self.cut) if self.cut else ("stopped" if self.stops else "killed")
        filled = "" if self.fills is None else f", somebody fills the disk but for {self.fills >> 10} KiB"
        return f"{self.steps} steps of each client{filled}; {end}"


class Clients:
    """Clients that go on from life to life, so that no message has the number of another."""

    def __init__(self, dice: random.Random) -> None:
        chances = [random.Random(dice.random()) for _ in range(3)]
        self.workers: tuple[Worker, ...]
        self.workers = (Publisher(0, chances[0]), Publisher(1, chances[1]), Transactor(2, chances[2]), Renewer())


def drawn_settings(dice: random.Random) -> dict[str, dict[str, Any]]:
    """Settings of a broker: those of the store by chance smaller, larger or off; the event log on or off."""
    store: dict[str, Any] = {"journal_bytes": dice.choice(JOURNALS)}
    return {"store": store, "events": {"enabled": dice.random() < 0.2}}


def other_store_settings(dice: random.Random) -> dict[str, dict[str, Any]]:
    """One setting of `[store]` as small as it may be, or much larger; and perhaps the event log."""
    usual = StoreSettings()
    name = dice.choice([name for name in StoreSettings.__struct_fields__ if name != ACCEPTS])
    value = getattr(usual, name)
    least = 0 if name == "journal_bytes" else 1
    chosen: Any = (not value) if isinstance(value, bool) else dice.choice((least, least, 4096, 64 << 10, value * 4))
    return {"store": {name: chosen}, "events": {"enabled": dice.random() < 0.3}}


def toml(settings: Settings) -> str:
    """Settings as a file, with windows that are small and no alarm of the disk."""
    limits = {"queue_window_messages": WINDOW_MESSAGES, "queue_window_bytes": WINDOW_BYTES}
    disk = {"free_limit_bytes": 0, "check_interval_seconds": 1.0}
    lines = []
    for section, fields in {"limits": limits, "disk": disk, **settings}.items():
        lines += [f"[{section}]", *(f"{name} = {str(value).lower()}" for name, value in fields.items())]
    return "\n".join([*lines, ""])


def shown(settings: Settings) -> str:
    """Settings in a line."""
    return ", ".join(
        f"{section}.{name} {value}" for section, fields in settings.items() for name, value in fields.items()
    )


def process_of(store: OperatedStore, settings: Settings, environment: dict[str, str]) -> BrokerProcess:
    """A broker on the store, not started."""
    config = store.home / f"settings-{store.number()}.toml"
    config.write_text(toml(settings))
    process = BrokerProcess(store.data, "--config", str(config), environment=environment, own_group=True)
    process.log_file = store.home / f"broker-{store.number()}.log"
    process.prefix = store.prefix
    return process


def live(
    store: OperatedStore, clients: Clients | None, settings: Settings, how: Live, release: Path | None = None
) -> Refusal | None:
    """A whole life; None, or how the start was refused. `release`: of the sources that it is a broker of.

    With limited files there is room while clients work, because the record of their frames grows.
    """
    if store.limited and clients is not None:
        store.empty()
        how = how._replace(fills=None)
    before = store.found() if how.cut else None
    record, environment = store.recorder(sockets=True)
    process = process_of(store, settings, environment)
    if release is not None:
        process.directory = release
        environment["PYTHONPATH"] = str(release)
        environment.pop("PLANTED", None)
    life = _Life(store, process, record)
    with _ended(process):
        if not process.try_to_start():
            refusal = store.refusal(process.wait(), process.log())
            return life.cut_in_start(before, how.cut) or refusal or Refusal("it ended with code 0 and was not ready")
        life.ready(how)
        life.go_through(clients, how)
        life.end(how, before)
    if "Traceback" in process.log():
        raise store.broken(f"a traceback\n{process.log()[-3000:]}")
    return None


@contextmanager
def _ended(process: BrokerProcess) -> Iterator[None]:
    """Leave no process behind."""
    try:
        yield
    finally:
        if process.running:
            process.kill()


class _Life:
    """One broker that runs, and what has come of it."""

    def __init__(self, store: OperatedStore, process: BrokerProcess, record: StepRecord) -> None:
        self._store = store
        self._process = process
        self._record = record
        self._ready_at = 0
        self._turn: Turn | None = None
        self._copies = len(store.keepsakes)
        self._copied_at = 0

    def ready(self, how: Live) -> None:
        """The broker has started: it has taken over all that it found."""
        self._ready_at = len(self._record.events)
        self._harms = list(self._store.harms)
        self._store.opened()
        self._store.begin_life()
        self._before = [history.copy() for history in self._store.histories]
        if how.first is not None:
            self._turn = how.first(self._process, self._record)

    def cut_in_start(self, before: Disk | None, cut: Cut | None) -> Refusal | None:
        """Cut a start that was refused."""
        if before is None or cut is None or self._store.crash(self._record, before, cut) is None:
            return None
        return Refusal("", cut=True)

    def go_through(self, clients: Clients | None, how: Live) -> None:
        """Have the clients work; in the midst of it they are silent, while an operator does something."""
        workers = clients.workers if clients else ()
        connected = [PatientClient.connect(self._process.address) for _ in workers]
        try:
            for worker, client in zip(workers, connected, strict=True):
                client.store = self._store
                worker.connect(client)
            for number in range(how.steps):
                if number == how.steps // 2:
                    self._midway(how)
                for worker in workers:
                    worker.step()
        except BlockedError:
            pass
        except (OSError, EOFError) as error:
            log = self._process.log()
            raise self._store.broken(f"the broker is gone: {type(error).__name__} {error}\n{log[-2000:]}") from error
        finally:
            self._hang_up(connected, how)

    def _midway(self, how: Live) -> None:
        if how.midway is not None:
            self._take_in()
            how.midway(self._process)
            self._copied_at = len(self._record.events)
        if how.fills is not None:
            self._store.fill(how.fills, self._process.pid)

    def _hang_up(self, connected: list[PatientClient], how: Live) -> None:
        """Without a stop the clients are there when the broker dies: nothing of theirs is given back before."""
        if not how.stops or how.cut:
            self._process.kill()
        elif self._process.running:
            self._process.terminate()
            for client in connected:
                client.expect_gone()
        for client in connected:
            client.close()

    def end(self, how: Live, before: Disk | None) -> None:
        """Take in what was said, and leave on the disk what the end has left."""
        place = None
        stopped = how.stops and not how.cut
        if how.cut is not None and before is not None:
            place = self._store.crash(self._record, before, how.cut)
        elif stopped and self._process.wait() != 0:
            stopped = False  # which counts as a crash
            if not self._store.full:
                raise self._store.broken(f"the stop was not clean\n{self._process.log()[-2000:]}")
        self._take_in(place)
        self._store.see(one for _, one in self._record.said(place))
        if place is not None and place < self._copied_at:
            self._store.forget_copies(self._copies)
        if place is not None and place < self._ready_at:
            self._store.harms[:] = self._harms
        if stopped and not self._store.full:  # else the journal may have what LMDB has no room for
            self._store.settle()
        elif place is None or place >= self._ready_at:
            self._settle(place)

    def _take_in(self, place: int | None = None) -> None:
        """Have the store's histories go on with what was said in this life, up to an event."""
        said, turn, at = self._record.said(place), self._turn, len(self._record.events) if place is None else place
        histories = [history.copy() for history in self._before] if turn is None or at < turn.done else []
        for history in histories:
            history.add(one for _, one in said)
        if turn is not None and at >= turn.begun:
            turned = turn.history.copy()
            turned.begin_life()
            turned.add(one for number, one in said if number > turn.done)
            histories.append(turned)
        self._store.histories = histories

    def _settle(self, place: int | None) -> None:
        """LMDB has what had been said when the commit before its last one was made: the last one took that over.

        On a full disk commits take away what is gone, and nothing over.
        """
        commits = [number for number in self._record.commits(self._ready_at) if place is None or number <= place]
        known = commits[-2] if len(commits) > 1 and not self._store.full else self._ready_at
        self._store.settle(sum(number > known for number, _ in self._record.said(place)))


def copy_of_running(store: OperatedStore, process: BrokerProcess, target: Path) -> None:
    """Copy the directory of a broker that does nothing meanwhile: what is copied is of one moment."""
    process.signal(SIGSTOP)
    try:
        copy_directory(store.data, target)
    finally:
        process.signal(SIGCONT)


def settings_known(section: str, name: str) -> bool:
    """True if there is a setting of this name."""
    return name in getattr(Config(), section).__struct_fields__
