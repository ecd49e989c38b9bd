"""One round: a broker and its standby live, are killed, and change places by promotions."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from broker.admin.protocol import AdministrationError
from broker.wire.methods import BasicAck
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain, fetch
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.standby_process import StandbyProcess
from harness.waiting import eventually, pass_by
from tests.durability.standby_kills.message_accounts import MessageAccounts

QUEUE = "q"
SECONDS = 120.0
STEPS_MAX, MESSAGES_MAX = 6, 20
PAUSE_SECONDS_MAX = 0.4
Machine = TypeVar("Machine", bound=BrokerProcess)
GONE = (EOFError, OSError, AssertionError)
"""Errors of a client whose broker is killed, or closes its connection."""


class StandbyRound:
    """The machines of one round, in directories below `place`. `promotions`, `kills`: how many there were so far."""

    def __init__(self, place: Path, seed: int, promotions: int) -> None:
        self._dice = random.Random(seed)
        self._place = place
        self._wanted = promotions
        self._away = place / "away"
        self._away.mkdir()
        self._confirms_shipped = self._dice.random() < 0.5
        self._settings = place / "leveret.toml"
        confirm = 'confirm = "shipped"\n' if self._confirms_shipped else ""
        self._settings.write_text(f'[ship]\nto = "{self._away}"\npiece_seconds = 0.05\n{confirm}')
        self.accounts = MessageAccounts()
        self.promotions = self.kills = self._machines = 0
        self._broker: BrokerProcess = self._machine(BrokerProcess)
        self._standby = self._machine(StandbyProcess)

    def go_through(self) -> None:
        """Live and promote, as often as is wanted. Raises AssertionError."""
        try:
            self._broker.start()
            self._declare()
            self._standby.start()
            for _ in range(self._wanted):
                for _ in range(self._dice.randint(1, STEPS_MAX)):
                    self._dice.choice((self._publish, self._take, self._kill_broker, self._kill_standby, self._fail))()
                self._promote()
        finally:
            for process in (self._broker, self._standby):
                process.discard()

    # Steps

    def _declare(self) -> None:
        client = Client.connect(self._broker.address)
        client.ask(queue_declare(QUEUE, durable=True))
        client.close()

    def _publish(self) -> None:
        client = Client.connect(self._broker.address)
        self._deposit(client, self._dice.randint(1, MESSAGES_MAX))
        client.close()

    def _deposit(self, client: Client, count: int) -> None:
        bodies = self.accounts.publish(count)
        deposit(client, *bodies, key=QUEUE, properties=PERSISTENT)
        self.accounts.confirmed(bodies, shipped=self._confirms_shipped)

    def _take(self) -> None:
        """Acknowledge some messages, and leave some that then come back."""
        self._publish()
        client = Client.connect(self._broker.address)
        waiting = client.ask(queue_declare(QUEUE, durable=True, passive=True)).message_count
        taken = fetch(client, QUEUE, self._dice.randint(0, min(waiting, MESSAGES_MAX)))
        done = taken[: self._dice.randint(0, len(taken))]
        for message in done:
            client.send(BasicAck(message.method.delivery_tag, False))
        self.accounts.acknowledged(message.body for message in done)
        self._deposit(client, 1)  # its confirm comes behind the acknowledgements
        client.close()
        if self._dice.random() < 0.5:
            self._await_shipped()

    def _await_shipped(self) -> None:
        """Return when all that happened is at the place."""

        def nothing_waits() -> bool:
            state = self._broker.tell("status")["ship"]
            return bool(state["bases"]) and not state["lag_bytes"]

        eventually(nothing_waits, "all to be shipped", seconds=SECONDS)
        self.accounts.all_shipped()

    def _kill_broker(self) -> None:
        with self._publishing():
            self._pause()
            self._broker.kill()
        self.kills += 1
        self._broker.start()

    def _kill_standby(self) -> None:
        with self._publishing():
            self._pause()
            self._standby.kill()
            self.kills += 1
            self._standby.start()
            self._pause()

    def _fail(self) -> None:
        """Let the place be gone for a while, in which the standby may be killed."""
        gone = self._away.with_name("gone")
        with self._publishing():
            self._away.rename(gone)
            self._pause()
            if self._dice.random() < 0.5:
                self._standby.kill()
                self.kills += 1
                self._standby.start()
            self._pause()
            gone.rename(self._away)

    @contextmanager
    def _publishing(self) -> Iterator[None]:
        """Publish meanwhile, as long as the broker takes it; and for the rest of what was begun."""
        ending = threading.Event()
        address = self._broker.address

        def publish() -> None:
            with suppress(*GONE), closing(Client.connect(address)) as client:
                while not ending.is_set():
                    self._deposit(client, 5)

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            yield
        finally:
            ending.set()
            publisher.join(SECONDS)
        assert not publisher.is_alive(), "a publisher is answered, or its connection is closed"

    def _pause(self) -> None:
        pass_by(time.monotonic() + self._dice.uniform(0, PAUSE_SECONDS_MAX))

    # Promotion

    def _promote(self) -> None:
        """Promote the standby, beside a broker that was killed or runs, and compare; then it is the broker."""
        self._await_base()
        dies = self._dice.random() < 0.6
        with self._publishing():
            self._pause()
            if dies:
                self._broker.kill()
                self.kills += 1
            if self._dice.random() < 0.4:
                self._kill_in_promotion()
            if not self._standby.promoted:
                done = run_text("promote", "--data-dir", str(self._standby.data_dir))
                assert done.returncode == 0, f"{done}\n{self._standby.log()}"
                self._standby.await_promoted()
        if not dies:
            assert self._broker.wait() == 1, "the old broker is fenced"
        assert "is owned by another" in self._refused_start()
        self.promotions += 1
        self._change_places()
        client = Client.connect(self._broker.address)
        self.accounts.check(drain(client, QUEUE))
        self._deposit(client, 1)
        client.close()
        self._await_shipped()

    def _await_base(self) -> None:
        def follows() -> bool:
            try:
                state = self._standby.tell("status")["standby"]
            except AdministrationError:
                return False
            return bool(state["stage"] == "following" and not state["problem"])

        eventually(follows, "the standby to follow", seconds=SECONDS)

    def _kill_in_promotion(self) -> None:
        """Kill the standby at some moment of a promotion. It is a standby still, or was promoted."""
        asked = threading.Thread(target=run_text, args=("promote", "--data-dir", str(self._standby.data_dir)))
        asked.start()
        self._pause()
        self._standby.kill()
        self.kills += 1
        asked.join(SECONDS)
        self._standby.start_as_it_is()
        if not self._standby.promoted:
            self._await_base()

    def _refused_start(self) -> str:
        if self._broker.running:
            self._broker.kill()
        options = ("--data-dir", str(self._broker.data_dir), "--listen", "127.0.0.1:0", *self._broker.http)
        done = run_text("serve", *options, "--config", str(self._settings))
        assert done.returncode == 1, done
        return done.stderr

    def _change_places(self) -> None:
        """The promoted one is the broker; a new machine follows it in place of the old one."""
        old, self._broker = self._broker, self._standby
        shutil.rmtree(old.data_dir)
        self._standby = self._machine(StandbyProcess)
        self._standby.start()

    def _machine(self, kind: Callable[[Path], Machine]) -> Machine:
        self._machines += 1
        process = kind(self._place / f"machine-{self._machines}")
        process.options = ("--config", str(self._settings))
        return process
