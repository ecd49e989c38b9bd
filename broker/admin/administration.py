"""The broker as commands see it: what exists, and how a change of it comes about.

A change is checked, written to the definitions store, and takes effect in memory when it is on disk. Nothing
is answered before; nothing that failed to be written is ever seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import trio

from broker.admin.apply_changes import take_effect
from broker.admin.command_arguments import not_found
from broker.admin.definitions.change_events import events_of
from broker.entities.exchanges.event_exchange import CLI
from broker.entities.node.broker import Broker
from broker.entities.node.users import User
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.entities.statistics.node_identity import NodeIdentity
from broker.entities.vhosts.vhost import VHost
from broker.session.registry import Registry
from broker.settled_future import settled
from storage.definitions.definition_changes import Change, Definitions

T = TypeVar("T")


class DefinitionWriter(Protocol):
    """The way of changes to the definitions store."""

    def write(self, *changes: Change) -> Future[None]:
        """Have changes written together; settles when they are on disk."""

    async def load(self) -> Definitions:
        """Everything that is on disk. Raises DefinitionsError."""


class Process(Protocol):
    """The process that the broker runs in. Sizes are bytes."""

    node_name: str
    memory_total: int
    """Of the machine, or of the container where that is less."""

    def look_around(self) -> None:
        """Have alarms as they must be now. While nothing happens nobody looks: to be called before a request is met."""

    def settings(self) -> dict[str, Any]:
        """The settings by section, without secrets."""

    def listeners(self) -> list[dict[str, Any]]:
        """Where clients come in: interface, port, protocol and purpose of each address."""

    def certificates(self) -> list[dict[str, Any]]:
        """The certificates in use: file, subject, and until when they hold, in seconds since the epoch."""

    def limit_memory(self, fraction: float | None, size: int) -> None:
        """Publishers wait from now on above this fraction of all memory or, where it is None, above this size."""

    def limit_disk(self, size: int) -> None:
        """Publishers wait from now on below so much free disk."""

    def log_files(self) -> list[str]:
        """Where the log goes."""

    def log_level(self, level: str) -> None:
        """Log from this level on; `none` is for nothing."""

    def log_form(self, form: str) -> None:
        """Write the log as `text` or as `json`."""

    async def seal_events(self) -> bool:
        """Have readers of the event log see what has happened so far; False where there is no log."""

    def stop(self) -> None:
        """Have the process end as on SIGTERM."""


class TestOrders(Protocol):
    """What takes orders of tests: `broker.testing`."""

    async def carry_out(self, order: str, given: Mapping[str, object]) -> object:
        """Carry out the order of a name; its answer, as JSON can hold it. Raises AdministrationError."""


class Shovels(Protocol):
    """The shovels of this broker, static and dynamic."""

    def rows(self) -> list[dict[str, Any]]:
        """How each does."""

    def restart(self, vhost: str, name: str) -> bool:
        """End a dynamic shovel and begin it anew; False where there is none."""


class NoShovels:
    """Of a broker that does not run."""

    def rows(self) -> list[dict[str, Any]]:
        """How each does."""
        return []

    def restart(self, vhost: str, name: str) -> bool:
        """There is none."""
        return False


class Administration:
    """What commands work on: a broker with its connections and its definitions, and what they ask of its server.

    `end_turn` delivers and sends what is ready, and sees to the disk; `copy_stores` copies both stores into a new
    directory; `status` is how the process does, its listeners, memory, disk and message store; `process` is what of it
    can be asked and changed.
    """

    def __init__(
        self,
        broker: Broker,
        registry: Registry,
        definitions: DefinitionWriter,
        *,
        end_turn: Callable[[], None],
        copy_stores: Callable[[Path], Awaitable[None]],
        status: Callable[[], dict[str, Any]],
        process: Process,
    ) -> None:
        self.broker = broker
        self.users = broker.users
        self.registry = registry
        self.definitions = definitions
        self.end_turn = end_turn
        self.copy_stores = copy_stores
        self.status = status
        self.process = process
        self.shovels: Shovels = NoShovels()
        self.turns = trio.Lock()
        """Changes happen one after the other, so that what one has checked still holds when it is written."""
        self.testing: TestOrders | None = None
        """Where the settings let tests give orders, what takes them."""
        self.by = CLI
        """The user that commands act for, as events name it."""

    def acting_for(self, user: str) -> Self:
        """The same broker and the same turns, with changes that are made by a user."""
        acting = copy(self)
        acting.by = user
        return acting

    @property
    def node(self) -> NodeIdentity:
        """What this node is called."""
        return NodeIdentity(self.process.node_name, self.broker.boot)

    async def change(self, *changes: Change) -> None:
        """Have changes written together, and take effect. Raises ConnectionException when they cannot be."""
        await self.settled(self.definitions.write(*changes))
        exchange = self.broker.event_exchange
        if exchange is not None:
            for key, headers, by in events_of(self.broker, changes):
                exchange.publish(key, headers, by or self.by)
        for holds in [take_effect(self.broker, change, self.by) for change in changes]:
            await self.settled(holds)

    async def settled(self, future: Future[T]) -> T:
        """The outcome of a change on its way to disk, once it is there."""
        if not future.done:
            await settled(future)
        return future.result()

    async def written(self) -> None:
        """Return when everything done to messages so far is on disk."""
        waiter = _Written()
        self.broker.batches.wait(waiter)
        self.end_turn()
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
