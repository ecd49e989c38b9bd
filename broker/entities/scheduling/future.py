"""A result that may have to wait for the disk, without any waiting here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")


class Future(Generic[T]):
    """The outcome of a change that is on its way to disk: settled once, with a value or with an error.

    Callbacks run when it settles, in the order they came; on a settled one they run at once.
    """

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], None]] = []

    @classmethod
    def resolved(cls, value: T) -> Future[T]:
        """One that has nothing to wait for."""
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
        """The value; raises the error it failed with."""
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
        """What `step` makes of the value; an error of either passes through."""
        outcome: Future[U] = Future()

        def go_on(settled: Future[T]) -> None:
            try:
                step(settled.result()).then(outcome.copy)
            except Exception as error:  # raised by `result`
                outcome.fail(error)

        self.then(go_on)
        return outcome

    def copy(self, other: Future[T]) -> None:
        """Settle as `other` did."""
        self._value, self._error = other._value, other._error
        self._settle()

    def _settle(self) -> None:
        assert not self.done, "settled twice"
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
