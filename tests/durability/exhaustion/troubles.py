"""Troubles for a broker and its surroundings, and their ends."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client
from harness.process_figures import own_memory
from tests.durability.faults.full_disks import SmallDisk
from tests.durability.faults.injector import Disk

ANSWER_SECONDS = 1.0
"""Seconds that a flood and a hog wait for the broker before they let it be."""
HOG_BODY, HOG_MESSAGES = bytes(64 << 10), 80
PUBLISHER_SECONDS, PUBLISHER_MESSAGES = 0.05, 30
SAMPLE_SECONDS = 0.02
CGROUPS = Path("/sys/fs/cgroup")


class FairTime:
    """Seconds in which the broker could have answered: it stands while the process or the disk is held up."""

    def __init__(self) -> None:
        self._held_up = 0.0
        self._since: float | None = None

    def now(self) -> float:
        """The seconds since some moment."""
        return (time.monotonic() if self._since is None else self._since) - self._held_up

    def stand(self) -> None:
        """It cannot answer from now on."""
        self._since = self._since or time.monotonic()

    def go_on(self) -> None:
        """It can again."""
        if self._since is not None:
            self._held_up, self._since = self._held_up + time.monotonic() - self._since, None


class Troubles:
    """Everything that may be wrong around a broker, each by a method of its name; `mend` takes all of it back."""

    def __init__(self, broker: BrokerProcess, disk: SmallDisk, syncs: Disk | None, fair_time: FairTime) -> None:
        """Without `syncs` there is no compiler, and they are never slow."""
        self._broker = broker
        self._disk = disk
        self._syncs = syncs
        self._fair_time = fair_time
        self._paused = self._slow = False
        self._clients: list[Client] = []
        self._kinds: dict[str, Callable[[int], None]] = {
            "fill": lambda left: self._disk.fill(leave=left),
            "free": lambda _: self._disk.empty(),
            "pause": lambda _: self._hold_up(paused=True),
            "go on": lambda _: self._hold_up(paused=False),
            "slow": lambda milliseconds: self._hold_up(milliseconds=milliseconds),
            "quick": lambda _: self._hold_up(milliseconds=0),
            "flood": self._flood,
            "hog": self._hog,
            "publishers": self._publishers,
            "nothing": lambda _: None,
        }

    def begin(self, kind: str, amount: int) -> None:
        """Have something happen."""
        self._kinds[kind](amount)

    def mend(self) -> None:
        """Nothing is wrong any more."""
        self.died()
        self._disk.empty()

    def died(self) -> None:
        """The broker was killed, or everything is mended: what does not outlast a process is over."""
        self._hold_up(paused=False, milliseconds=0)
        while self._clients:
            self._clients.pop().close()

    def _hold_up(self, *, paused: bool | None = None, milliseconds: int | None = None) -> None:
        if milliseconds is not None and self._syncs is not None:
            self._slow = milliseconds > 0
            if self._slow:
                self._syncs.slow_down(milliseconds)
            else:
                self._syncs.mend()
        if paused is not None and self._broker.running:
            self._broker.signal(signal.SIGSTOP if paused else signal.SIGCONT)
        self._paused = self._paused if paused is None else paused
        if self._paused or self._slow:
            self._fair_time.stand()
        else:
            self._fair_time.go_on()

    def _flood(self, most: int) -> None:
        """Connections, every second one silent, until one is not accepted."""
        with suppress(OSError, EOFError):
            for _ in range(most // 2):
                self._clients.append(Client(self._broker.address))
                self._clients.append(Client.connect(self._broker.address, channels=(), timeout=ANSWER_SECONDS))

    def _hog(self, most: int) -> None:
        """Clients that ask for messages and read no answer, as many as the broker takes, each with 4 MiB and more."""
        with suppress(OSError, EOFError):
            for _ in range(most):
                client = Client.connect(self._broker.address, timeout=ANSWER_SECONDS)
                self._clients.append(client)
                queue = client.ask(queue_declare(exclusive=True)).queue
                for _ in range(HOG_MESSAGES):
                    client.publish(HOG_BODY, key=queue)
                client.send(*[get(queue, no_ack=True)] * HOG_MESSAGES)

    def _publishers(self, most: int) -> None:
        """Clients that publish whether they may or not, until the broker reads no more."""
        with suppress(OSError, EOFError):
            for _ in range(most):
                client = Client.connect(self._broker.address, timeout=ANSWER_SECONDS)
                self._clients.append(client)
                client.socket.settimeout(PUBLISHER_SECONDS)
                with suppress(TimeoutError):
                    for _ in range(PUBLISHER_MESSAGES):
                        client.publish(HOG_BODY, key="nowhere")


class MemoryWatch:
    """The most memory that a broker has taken for itself, over its lives, as often as it is looked at."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.highest = 0
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            with suppress(OSError, ValueError, AssertionError):  # there is no process now
                self.highest = max(self.highest, own_memory(self._broker.pid))


@contextmanager
def control_group(name: str, memory_bytes: int) -> Iterator[Path | None]:
    """A control group limited to this memory, of either kind; None if none can be made."""
    first = (CGROUPS / "memory" / "memory.limit_in_bytes").exists()
    made: Path | None = None
    group: Path | None = None
    with suppress(OSError):
        # Its name is its own: a run that was killed leaves its groups behind.
        group = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=CGROUPS / "memory" if first else CGROUPS))
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(memory_bytes))
        made = group
    try:
        yield made
    finally:
        if group:
            with suppress(OSError):
                group.rmdir()
