"""Concurrent declarations of one name: one creates the entity, the others are compared with it.

A durable entity is not visible before it is on disk. Another declaration of its name waits for that, and is then
compared with the entity, or creates it if the first declaration failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from broker.entities.scheduling.future import Future

E = TypeVar("E")


class Plan(NamedTuple, Generic[E]):
    """A declaration: how to make the entity, compare it with an existing one, and write it if it is durable."""

    make: Callable[[], E]
    compare: Callable[[E], None]
    """Raises ChannelException if the existing entity differs from the declaration."""
    write: Callable[[E], Future[None]]
    durable: bool
    by: str
    """The user that declares it."""


class Creations(Generic[E]):
    """Creates the exchanges, or the queues, of one virtual host. `appear` is called with each new entity and user."""

    def __init__(self, existing: Mapping[str, E], appear: Callable[[E, str], None]) -> None:
        self._existing = existing
        self._appear = appear
        self._underway: dict[str, Future[E]] = {}

    def declare(self, name: str, plan: Plan[E]) -> Future[E]:
        """Return a future for the existing or new entity. Raises what `plan.compare` raises."""
        if name in self._existing:
            plan.compare(self._existing[name])
            return Future.resolved(self._existing[name])
        if name in self._underway:
            return self._after(self._underway[name], name, plan)
        entity = plan.make()
        if not plan.durable:
            self._appear(entity, plan.by)
            return Future.resolved(entity)
        return self._write(name, entity, plan)

    def _after(self, other: Future[E], name: str, plan: Plan[E]) -> Future[E]:
        settled: Future[None] = Future()
        other.then(lambda _: settled.resolve(None))  # a failure of that declaration does not fail this one
        return settled.chain(lambda _: self.declare(name, plan))

    def _write(self, name: str, entity: E, plan: Plan[E]) -> Future[E]:
        writing = plan.write(entity)  # if this raises, the name is not taken
        created = self._underway[name] = Future()

        def written(outcome: Future[None]) -> None:
            del self._underway[name]
            try:
                outcome.result()
            except Exception as error:  # passed on to every declaration of the name
                created.fail(error)
            else:
                self._appear(entity, plan.by)
                created.resolve(entity)

        writing.then(written)
        return created
