"""Names that are being made: one creation and one comparison, however many declare at once.

A durable entity cannot be seen before it is on disk. Another declaration of its name waits for that, and is then
compared with what has been made - or makes it, if that has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from broker.entities.scheduling.future import Future

E = TypeVar("E")


class Plan(NamedTuple, Generic[E]):
    """How an entity is declared: made, or compared with the one that is there, and written if it is durable."""

    make: Callable[[], E]
    compare: Callable[[E], None]
    """Raises ChannelException when the entity is not what is being declared."""
    write: Callable[[E], Future[None]]
    durable: bool
    by: str
    """The user that declares it."""


class Creations(Generic[E]):
    """The names of one kind in one virtual host. `appear` is called with each entity that a user has made."""

    def __init__(self, existing: Mapping[str, E], appear: Callable[[E, str], None]) -> None:
        self._existing = existing
        self._appear = appear
        self._underway: dict[str, Future[E]] = {}

    def declare(self, name: str, plan: Plan[E]) -> Future[E]:
        """Find or make the entity. Raises what `plan.compare` raises."""
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
        writing = plan.write(entity)  # should it raise, nothing has begun
        created = self._underway[name] = Future()

        def written(outcome: Future[None]) -> None:
            del self._underway[name]
            try:
                outcome.result()
            except Exception as error:  # raised for all that declared it
                created.fail(error)
            else:
                self._appear(entity, plan.by)
                created.resolve(entity)

        writing.then(written)
        return created
