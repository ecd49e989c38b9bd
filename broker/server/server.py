"""A running broker: makes all its parts, accepts clients, and closes their connections at the end."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import trio

from broker.admin.administration import Administration
from broker.admin.short_steps import PAUSES, Pauses
from broker.config import Config
from broker.server.commits.commit_policy import CommitLimits
from broker.server.disk.disk_watch import DiskWatch
from broker.server.engine import Engine, Wakeup
from broker.server.loop_metrics import LoopMetrics
from broker.server.net.bound_listeners import Listeners
from broker.server.net.replaceable_parts import USUAL_PARTS, ReplaceableParts
from broker.server.net.served_clients import ServedClients
from broker.server.node_control import NodeControl
from broker.server.recovery import Recovered, Stores
from broker.server.resource_alarms import ResourceWatch
from broker.server.server_status import server_status
from broker.server.shovels import shovel_host
from broker.server.start import configured_sessions
from broker.server.stoppable_application import StoppableApplication
from broker.server.store_copies import StoreCopies
from broker.session.registry import Registry
from storage.pending_sync import PendingSync

DESCRIPTORS_RESERVED = 64
"""Open files kept for the broker: the stores, the administration socket, a backup."""
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"
FENCED = "broker forced connection closure with reason 'fenced'"
"""Texts of connection.close at a stop."""


class Server:
    """A running broker: its parts, made here."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        recovered: Recovered,
        wakeup: Wakeup,
        nursery: trio.Nursery,
        parts: ReplaceableParts = USUAL_PARTS,
    ) -> None:
        self.config, self.stores, self.nursery = config, stores, nursery
        self.broker = broker = recovered.broker
        self.definition_log = recovered.definition_log
        self.registry = Registry(broker, configured_sessions.session_settings(config), parts.new_confirms)
        self.resources = ResourceWatch(config, broker.alarms, stores.messages.space, self._waiting_bytes)
        self.disk_watch = DiskWatch(_pending_syncs(stores), config.disk.hang_seconds)
        self.copies = StoreCopies(stores, self.definition_log.drop_tombstones)
        # Before the engine, which makes the committer and tells both.
        self.engine = Engine(
            broker,
            stores.messages,
            wakeup,
            CommitLimits(config.store.backlog_batches_max, config.store.lazy_bytes_max),
            lazy_flush_seconds=config.store.lazy_flush_milliseconds / 1000,
            on_full=self.resources.disk_full,
            on_reclaimed=self.copies.reclaimed,
            changes=self.definition_log,
            writer=parts.writer,
        )
        self.committer, self.activity = self.engine.committer, self.engine.activity
        PAUSES.set(Pauses(lambda: self.committer.busy))  # long administrative work gives way to commits
        measurements = broker.statistics.measurements
        self.loop_metrics = LoopMetrics(measurements, stores.messages.io.recent, self.committer.waits, self.activity)
        self.clients = ServedClients(
            self.registry, self.engine, parts, config.limits, _connections_max(config), nursery
        )
        self.application = StoppableApplication(self._close_all)
        self.control = NodeControl(config, self.registry, self.resources, self.activity, self.application)
        self.administration = Administration(
            broker,
            self.registry,
            self.definition_log,
            end_turn=self.engine.end_turn,
            copy_stores=self._copy_stores,
            status=lambda: server_status(self),
            process=self.control,
        )
        self.shovels = self.administration.shovels = shovel_host.ShovelHost(self)
        self.started = time.time()
        broker.alarms.observe(self._unblock)

    async def _copy_stores(self, directory: Path) -> None:
        """Copy both stores, with all messages that are on disk now."""
        await self.committer.catch_up()
        await self.copies.make(directory)

    def listen(self, bound: Listeners) -> None:
        """Accept clients, and watch memory, disk and heartbeats from now on."""
        self.application.listens_on(bound)
        self.control.security = bound.security
        self.nursery.start_soon(self.resources.watch_memory, self.activity.pause)
        self.nursery.start_soon(self.resources.watch_disk, self.committer, self.activity.pause)
        self.nursery.start_soon(self.loop_metrics.run)
        self.clients.listen(bound)

    def _waiting_bytes(self) -> int:
        """Return the bytes that blocked publishers have sent: held methods, and input behind them."""
        return self.registry.held_bytes + self.clients.unhandled_bytes

    def unready(self) -> str:
        """Return the reason why AMQP clients should not come now, or are not accepted; empty while they are."""
        if self.clients.full:
            return f"connection limit reached ({self.clients.connections_max})"
        return self.disk_watch.hangs()

    async def _close_all(self) -> None:
        """Close shovels and clients."""
        await self.shovels.stop()
        await self.close_clients()

    async def close_clients(self) -> None:
        """Close all connections, and wait for clients at most 60 % of the stop's time."""
        text = SHUTDOWN if self.application.fenced is None else FENCED
        await self.clients.close(text, self.config.shutdown.timeout_seconds * 0.6)

    def _unblock(self) -> None:
        if not self.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()
            self.engine.end_turn()


def _pending_syncs(stores: Stores) -> list[PendingSync]:
    """Return the writes that each file of the stores waits for."""
    return [stores.messages.journal.pending, stores.messages.io.pending, stores.definitions.pending]


def _connections_max(config: Config) -> int:
    """Return the largest number of connections, by the limit of open files."""
    reserved = DESCRIPTORS_RESERVED + _descriptors_of_http(config)
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - reserved)


def _descriptors_of_http(config: Config) -> int:
    """Return the descriptors that HTTP may need: a socket and a file for each connection."""
    management = config.management
    served = management.listen or management.tls_listen or config.prometheus.listen
    return 2 * config.http.connections_max if served else 0
