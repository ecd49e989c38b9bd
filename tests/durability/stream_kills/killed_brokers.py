"""Brokers that are killed and started again, all at the same moment."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

KILL_SECONDS = 120


@dataclass(frozen=True)
class KilledBroker:
    """A broker by the name that its files have, with a function that kills it and returns when it is there again."""

    label: str
    address: tuple[str, int]
    kill_and_restart: Callable[[], object]


def broker_at(place: str, command: str) -> KilledBroker:
    """Return the broker at HOST:PORT, with a command of the shell that kills it and starts it again."""
    host, _, port = place.rpartition(":")

    def run() -> None:
        # In a session of its own it starts the broker even if the campaign is ended, by a signal to all of its group.
        subprocess.run(command, shell=True, check=True, timeout=KILL_SECONDS, start_new_session=True)

    return KilledBroker(f"{host}-{port}", (host, int(port)), run)


class KilledBrokers:
    """Kills brokers beside the caller, who goes on while they start. Use it with `with`."""

    def __init__(self, brokers: Sequence[KilledBroker]) -> None:
        self._brokers = brokers
        self._threads = ThreadPoolExecutor(len(brokers))
        self._starting: list[Future[object]] = []

    def __enter__(self) -> KilledBrokers:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def kill(self) -> None:
        """Kill all, once they have come back from the last time. Raises what a kill or start of one raised."""
        self.await_started()
        self._starting = [self._threads.submit(broker.kill_and_restart) for broker in self._brokers]

    def await_started(self) -> None:
        """Return when all that were killed are there again. Raises what a kill or start of one raised."""
        wait(self._starting)
        for each in self._starting:
            each.result()
