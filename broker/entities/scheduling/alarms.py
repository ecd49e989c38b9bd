"""Resource alarms: memory and disk, and the callbacks of those that block publishers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

MEMORY = "memory"
DISK = "disk"


class ResourceObserver(Protocol):
    """Is called when a resource has run short, or is plentiful again."""

    def __call__(self, resource: str, *, short: bool) -> None: ...


class Alarms:
    """Which of memory and disk are short. Publishers are held while either is: while `raised`."""

    def __init__(self) -> None:
        self.raised = False
        self._raised: dict[str, None] = {}
        self._observers: list[Callable[[], None]] = []
        self._observers_of_each: list[ResourceObserver] = []

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

    def observe_each(self, callback: ResourceObserver) -> None:
        """Call back on every change of one resource."""
        self._observers_of_each.append(callback)

    def set(self, resource: str, *, short: bool) -> None:
        """A resource has run short, or is plentiful again."""
        before, changed = self.raised, short != self.is_raised(resource)
        if short:
            self._raised[resource] = None
        else:
            self._raised.pop(resource, None)
        self.raised = bool(self._raised)
        if before != self.raised:
            for callback in self._observers:
                callback()
        if changed:
            for callback_of_each in self._observers_of_each:
                callback_of_each(resource, short=short)
