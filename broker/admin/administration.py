"""The broker as commands see it: what exists, and how a change of it comes about.

A change is checked, written to the definitions store, and takes effect in memory when it is on disk. Nothing
is answered before; nothing that failed to be written is ever seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from broker.admin.apply_changes import take_effect
from broker.admin.command_arguments import not_found
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.users import User
from broker.entities.vhosts.vhost import VHost
from storage.definitions.definition_changes import Change

if TYPE_CHECKING:
    from broker.server.serve import Server

T = TypeVar("T")


class Administration:
    """What commands work on: a broker with its stores, listening or not."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.broker = server.broker
        self.users = server.broker.users
        self.turns = trio.Lock()
        """Changes happen one after the other, so that what one has checked still holds when it is written."""

    async def change(self, *changes: Change) -> None:
        """Have changes written together, and take effect. Raises ConnectionException when they cannot be."""
        await self.settled(self.server.definition_log.write(*changes))
        for change in changes:
            take_effect(self.broker, change)

    async def settled(self, future: Future[T]) -> T:
        """The outcome of a change on its way to disk, once it is there."""
        if not future.done:
            done = trio.Event()
            future.then(lambda _: done.set())
            await done.wait()
        return future.result()

    async def written(self) -> None:
        """Return when everything done to messages so far is on disk."""
        waiter = _Written()
        self.broker.batches.wait(waiter)
        self.server.engine.end_turn()
        await waiter.event.wait()

    # Finding

    def user(self, name: str) -> User:
        """The user of this name. Raises AdministrationError `not_found`."""
        user = self.users.by_name.get(name)
        if user is None:
            raise not_found(f'User "{name}" does not exist')
        return user

    def vhost(self, name: str) -> VHost:
        """The virtual host of this name. Raises AdministrationError `not_found`."""
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            raise not_found(f"Virtual host '{name}' does not exist")
        return vhost

    def queue(self, vhost: str, name: str) -> Queue:
        """The queue of this name. Raises AdministrationError `not_found`."""
        queue = self.vhost(vhost).queues.get(name)
        if queue is None:
            raise not_found(f"no queue '{name}' in vhost '{vhost}'")
        return queue


class _Written:
    """Waits for the batch that was open when it was made."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def stored(self, batch: int) -> None:
        self.event.set()
