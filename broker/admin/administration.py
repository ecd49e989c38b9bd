"""The broker as commands see it: its entities, and the way of a change of them.

A change is checked, written to the definitions store, and takes effect in memory when it is on disk. It is not
answered before; a change that could not be written is never seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import trio

from broker.admin.apply_changes import events_of, take_effect
from broker.admin.protocol import not_found
from broker.admin.short_steps import AT_ONCE, in_steps, mapped
from broker.entities.exchanges.event_exchange import CLI
from broker.entities.node.broker import Broker
from broker.entities.node.users import User
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.entities.statistics.node_identity import NodeIdentity
from broker.entities.vhosts.vhost import VHost
from broker.session.registry import Registry
from broker.settled_future import settled
from storage.definitions.definition_rows import Change, Definitions

T = TypeVar("T")


class DefinitionWriter(Protocol):
    """Writes changes into the definitions store."""

    def write(self, *changes: Change) -> Future[None]:
        """Write changes together; the future settles when they are on disk."""

    async def load(self) -> Definitions:
        """Return everything that is on disk. Raises DefinitionsError."""


class Backups(Protocol):
    """The directory of backups that the settings name; `directory` is empty without one, `keep` of them are kept."""

    directory: str
    keep: int

    def rows(self) -> list[dict[str, Any]]:
        """Return name, time and bytes of each backup, newest first. Raises OSError."""

    def next(self) -> Path:
        """Return the path of a backup that begins now."""

    def keep_newest(self, newest: Path) -> list[str]:
        """Delete the oldest backups; return their names. Raises StoreError and OSError."""


class Process(Protocol):
    """The process that the broker runs in. Sizes are bytes."""

    node_name: str
    memory_total: int
    """The machine's memory, or the container's where that is less."""

    @property
    def backups(self) -> Backups:
        """The directory of backups."""

    def look_around(self) -> None:
        """Bring alarms up to date. While the broker is idle nobody does: to be called before a request is answered."""

    def settings(self) -> dict[str, Any]:
        """Return the settings by section, without secrets."""

    def listeners(self) -> list[dict[str, Any]]:
        """Return the listeners: interface, port, protocol and purpose of each address."""

    def certificates(self) -> list[dict[str, Any]]:
        """Return the certificates in use: file, subject, and time of expiry, in seconds since the epoch."""

    def limit_memory(self, fraction: float | None, size: int) -> None:
        """Raise the memory alarm from now on above a fraction of all memory or, if that is None, above a size."""

    def limit_disk(self, size: int) -> None:
        """Raise the disk alarm from now on below `size` free bytes."""

    def hold_alarm(self, resource: str, *, on: bool) -> None:
        """Keep the alarm of a resource raised, or let it follow the resource again."""

    def monitor_disk(self, *, on: bool) -> None:
        """Check the free disk space, or leave the disk alarm as it is until the next start."""

    def log_files(self) -> list[str]:
        """Return the files of the log."""

    def log_level(self, level: str) -> None:
        """Log from this level on; `none` logs nothing."""

    def log_form(self, form: str) -> None:
        """Write the log as `text` or as `json`."""

    async def seal_events(self) -> bool:
        """Show readers of the event log everything up to now; False if there is no log."""

    async def ship_to(self, place: str) -> None:
        """Ship both stores to a second place until the broker stops. Raises AdministrationError, StoreError."""

    async def ship_off(self) -> None:
        """End what `ship_to` has begun. Raises AdministrationError."""

    @property
    def application_stopped(self) -> bool:
        """True if all listeners and connections are closed, by `stop_application`."""

    async def stop_application(self) -> None:
        """Close all listeners and connections; the process and its stores stay."""

    def start_application(self) -> None:
        """Start the broker again in this process, if `stop_application` has stopped it."""

    def stop(self) -> None:
        """End the process as on SIGTERM."""


TESTING_ON = "[testing] is enabled: tests may stop the clock, inject faults and delete everything in this broker"
TESTING_OFF = (
    "this broker takes no orders of tests: start it with `enabled = true` in section [testing] of its settings,"
    " and never where its messages matter"
)
NOT_MET = "not_met"
"""The kind of the error when an expectation was not met in time."""


class TestOrders(Protocol):
    """Carries out orders of tests: `broker.testing`."""

    async def carry_out(self, order: str, given: Mapping[str, object]) -> object:
        """Carry out an order. Returns its answer, as JSON can hold it. Raises AdministrationError."""


class StandbyControl(Protocol):
    """A node that follows a second place: nothing is changed there but by what is shipped."""

    read_only: str
    """The sentence with which a change is refused."""

    def state(self) -> dict[str, Any]:
        """Return how far the place is followed."""

    async def promote(self, *, without_place: bool) -> dict[str, Any]:
        """Make this node the broker. Returns what is fenced, and what was not read. Raises StoreError and OSError."""

    async def copy_stores(self, directory: Path) -> None:
        """Copy both stores, as far as they are followed, into a new directory. Raises as `leveret backup` does."""


class ShovelControl(Protocol):
    """The shovels of this broker, static and dynamic."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the state of each shovel."""

    def restart(self, vhost: str, name: str) -> bool:
        """Restart a dynamic shovel; False if there is none."""


class NoShovels:
    """The shovels of a broker that does not run."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the state of each shovel."""
        return []

    def restart(self, vhost: str, name: str) -> bool:
        """Return False."""
        return False


class StatisticsControl(Protocol):
    """The samples of the management API."""

    async def forget(self) -> None:
        """Drop all samples. Counters stay."""


class NoStatistics:
    """The samples of a broker without a management API."""

    async def forget(self) -> None:
        """Do nothing."""


class Administration:
    """A broker with its connections and its definitions, and the parts of its server that commands ask.

    `end_turn` delivers and sends what is ready, and commits; `copy_stores` copies both stores into a new directory;
    `status` returns the state of the process, its listeners, memory, disk and message store.
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
        self.shovels: ShovelControl = NoShovels()
        self.statistics: StatisticsControl = NoStatistics()
        self.turns = trio.Lock()
        """Held by a change from its check until it is written, so that changes happen one after the other."""
        self.standby: StandbyControl | None = None
        """None unless this node only follows another."""
        self.testing: TestOrders | None = None
        """None unless the settings let tests give orders."""
        self.by = CLI
        """The user that commands act for, as events name it."""

    def acting_for(self, user: str) -> Self:
        """Return the administration of the same broker, with changes that are made by a user."""
        acting = copy(self)
        acting.by = user
        return acting

    @property
    def node(self) -> NodeIdentity:
        """The name of this node."""
        return NodeIdentity(self.process.node_name, self.broker.boot)

    async def change(self, *changes: Change) -> None:
        """Write changes together, then apply them, in short steps. Raises ConnectionException if writing fails."""
        await self.settled(self.definitions.write(*changes))
        # From here on the disk has the changes: memory follows even if nobody waits for the answer any more.
        with trio.CancelScope(shield=True):
            await self._publish(changes)
            applied = await mapped(partial(take_effect, self.broker, by=self.by), changes)
        for effect in applied:
            await self.settled(effect)

    async def _publish(self, changes: Sequence[Change]) -> None:
        """Publish the events of changes that are about to take effect."""
        exchange = self.broker.event_exchange
        if exchange is not None:
            async with aclosing(in_steps(events_of(self.broker, changes), at_once=AT_ONCE)) as events:
                async for key, headers, by in events:
                    exchange.publish(key, headers, by or self.by)

    async def settled(self, future: Future[T]) -> T:
        """Wait for a change on its way to disk, and return its outcome."""
        if not future.done:
            await settled(future)
        return future.result()

    async def written(self, *, removals: bool = False) -> None:
        """Return when everything done to messages so far is on disk, or the `removals` among it are."""
        waiter = _Written()
        if removals:
            self.broker.batches.wait_for_removal(waiter)
        else:
            self.broker.batches.wait(waiter)
        self.end_turn()
        await waiter.event.wait()

    # Finding

    def user(self, name: str) -> User:
        """Return the user of this name. Raises AdministrationError `not_found`."""
        user = self.users.by_name.get(name)
        if user is None:
            raise not_found(f'User "{name}" does not exist')
        return user

    def vhost(self, name: str) -> VHost:
        """Return the virtual host of this name. Raises AdministrationError `not_found`."""
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            raise not_found(f"Virtual host '{name}' does not exist")
        return vhost

    def vhosts(self, name: str | None) -> list[VHost]:
        """Return the virtual host of this name; all for None. Raises AdministrationError `not_found`."""
        return list(self.broker.vhosts.values()) if name is None else [self.vhost(name)]

    def queue(self, vhost: str, name: str) -> Queue:
        """Return the queue of this name. Raises AdministrationError `not_found`."""
        queue = self.vhost(vhost).queues.get(name)
        if queue is None:
            raise not_found(f"no queue '{name}' in vhost '{vhost}'")
        return queue


class _Written:
    """A waiter for the batch that is open when it is made."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def stored(self, batch: int) -> None:
        self.event.set()
