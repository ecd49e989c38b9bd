"""The event log of a life in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from broker.config import Config
from broker.entities.node.broker import Broker
from broker.server.event_log import FLUSH_SECONDS, STEP_SECONDS, Events
from storage.events.event_log_writer import EventLog, EventLogSettings, Part
from storage.messages.message_store import MessageStore
from storage.messages.small_records import NumberInBoot

STOP_SECONDS = 3600.0
Later = Callable[[int, Callable[[], None]], None]
"""Does something after a number of milliseconds, if the process is still alive."""


class GatheredLog:
    """A boot's log, handed to the real one when the boot is over: no thread writes while the disk is held to a size.

    To be handed over is to be with the kernel, so a kill leaves it.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._parts: list[Part] = []

    @classmethod
    def open(
        cls, directory: Path, node: str, boot: int, settings: EventLogSettings
    ) -> tuple[Self, NumberInBoot | None]:
        """Begin a boot's log; return the last event before it, too."""
        log, last = EventLog.open(directory, node, boot, settings)
        return cls(log), last

    def append(self, part: Part) -> None:
        """Keep records."""
        self._parts.append(part)

    def seal(self) -> None:
        """There are no readers before the end."""

    def close(self) -> None:
        """Write everything, and seal it."""
        for part in self._parts:
            self._log.append(part)
        self._log.close()


class LoggedLife:
    """Records what happens in a life of the broker."""

    def __init__(self, settings: Config, store: MessageStore) -> None:
        self._log: GatheredLog
        self._written = True
        """Nothing is to be written soon."""

        def opened(
            directory: Path, node: str, boot: int, said: EventLogSettings
        ) -> tuple[GatheredLog, NumberInBoot | None]:
            self._log, last = GatheredLog.open(directory, node, boot, said)
            return self._log, last

        self.events = Events(settings, store, opened)

    def begin(self, broker: Broker, later: Later) -> None:
        """Record the messages that are there, in steps beside all else."""
        steps = self.events.snapshot(broker)

        def step() -> None:
            if next(steps, self) is not self:
                later(int(STEP_SECONDS * 1000), step)

        later(0, step)

    def write_soon(self, later: Later) -> None:
        """Have what has been recorded written after a while, if there is anything."""
        if self._written and self.events.gathering:
            self._written = False
            later(int(FLUSH_SECONDS * 1000), self._write)

    def _write(self) -> None:
        self._written = True
        self.events.flush()

    def stop(self, broker: Broker) -> None:
        """Record what is there at an orderly stop."""
        self.events.record_stop(broker, STOP_SECONDS)
        self.events.flush()

    def close(self) -> None:
        """End the log; what was not written is lost with the process."""
        self._log.close()
