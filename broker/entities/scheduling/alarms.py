"""Resource alarms: memory and disk, and the callbacks of those that block publishers."""

from __future__ import annotations

from collections.abc import Callable

MEMORY = "memory"
DISK = "disk"


class Alarms:
    """Which of memory and disk are short. Publishers are held while either is: while `raised`."""

    def __init__(self) -> None:
        self.raised = False
        self._raised: dict[str, None] = {}
        self._observers: list[Callable[[], None]] = []

    def is_raised(self, resource: str) -> bool:
        """This resource is short."""
        return resource in self._raised

    @property
    def reason(self) -> str:
        """The reason in connection.blocked, in RabbitMQ's words: "low on memory & disk"."""
        return "low on " + " & ".join(name for name in (MEMORY, DISK) if name in self._raised)

    def observe(self, callback: Callable[[], None]) -> None:
        """Call back on every change from short to plenty and back."""
        self._observers.append(callback)

    def set(self, resource: str, *, short: bool) -> None:
        """A resource has run short, or is plentiful again."""
        before = self.raised
        if short:
            self._raised[resource] = None
        else:
            self._raised.pop(resource, None)
        self.raised = bool(self._raised)
        if before != self.raised:
            for callback in self._observers:
                callback()
