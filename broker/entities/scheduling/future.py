"""The result of a change that may still be on its way to disk. Nothing here blocks or awaits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")


class Future(Generic[T]):
    """The outcome of a change: settled once, with a value or with an error.

    Callbacks run when it is settled, in the order in which they were added, or at once if it is settled already.
    """

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], None]] = []

    @classmethod
    def resolved(cls, value: T) -> Future[T]:
        """Return a future that is settled with this value."""
        future = cls()
        future.resolve(value)
        return future

    def resolve(self, value: T) -> None:
        """Settle with a value."""
        self._value = value
        self._settle()

    def fail(self, error: Exception) -> None:
        """Settle with an error, which `result` raises."""
        self._error = error
        self._settle()

    def result(self) -> T:
        """Return the value, or raise the error. The future must be settled."""
        assert self.done, "the result of a future that is not settled"
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def then(self, callback: Callable[[Future[T]], None]) -> None:
        """Call back with this future once it is settled."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def chain(self, step: Callable[[T], Future[U]]) -> Future[U]:
        """Return the future that `step` makes of the value; an error of either passes through."""
        outcome: Future[U] = Future()

        def go_on(settled: Future[T]) -> None:
            try:
                step(settled.result()).then(outcome.copy)
            except Exception as error:  # raised by `result`
                outcome.fail(error)

        self.then(go_on)
        return outcome

    def copy(self, other: Future[T]) -> None:
        """Settle with the value or error of `other`, which is settled."""
        self._value, self._error = other._value, other._error
        self._settle()

    def _settle(self) -> None:
        assert not self.done, "settled twice"
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
