"""Resource alarms: memory and disk, and the callbacks of those that block publishers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

MEMORY = "memory"
DISK = "disk"


class ResourceObserver(Protocol):
    """A callback for the start and the end of one resource's alarm."""

    def __call__(self, resource: str, *, short: bool) -> None: ...


class Alarms:
    """The memory alarm and the disk alarm. `raised`: at least one is on, and publishers are blocked."""

    def __init__(self) -> None:
        self.raised = False
        self._raised: dict[str, None] = {}
        self._observers: list[Callable[[], None]] = []
        self._observers_of_each: list[ResourceObserver] = []

    def is_raised(self, resource: str) -> bool:
        """Return whether this resource's alarm is on."""
        return resource in self._raised

    @property
    def reason(self) -> str:
        """The reason for connection.blocked, as RabbitMQ writes it: "low on memory & disk"."""
        return "low on " + " & ".join(name for name in (MEMORY, DISK) if name in self._raised)

    def observe(self, callback: Callable[[], None]) -> None:
        """Call back whenever `raised` changes."""
        self._observers.append(callback)

    def observe_each(self, callback: ResourceObserver) -> None:
        """Call back whenever one resource's alarm starts or ends."""
        self._observers_of_each.append(callback)

    def set(self, resource: str, *, short: bool) -> None:
        """Start or end a resource's alarm."""
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
