"""A running broker: makes all its parts, accepts clients, and closes their connections at the end."""

from __future__ import annotations

import logging
import os
import resource
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import trio

from broker import __version__
from broker.admin.administration import TESTING_ON, Administration
from broker.admin.node import process_facts
from broker.admin.short_steps import PAUSES, Pauses
from broker.config import Address, Config
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.entities.scheduling.invariants import BrokenInvariant
from broker.process_memory import memory_used
from broker.server import resource_alarms
from broker.server.commits.commit_policy import CommitLimits
from broker.server.disk.disk_watch import DiskWatch
from broker.server.engine import Engine, Wakeup
from broker.server.loop_metrics import LoopMetrics
from broker.server.net import listeners, local_connections
from broker.server.net.heartbeats import beat_forever
from broker.server.net.replaceable_parts import USUAL_PARTS, ReplaceableParts
from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import SecureTransport
from broker.server.net.transport import Transport
from broker.server.node_control import NodeControl
from broker.server.recovery import Recovered, Stores
from broker.server.resource_alarms import ResourceWatch
from broker.server.shipping.shipping import shipping_of
from broker.server.shovels import shovel_host
from broker.server.start.start_line import CORE
from broker.server.stoppable_application import Addresses, StoppableApplication
from broker.server.store_copies import StoreCopies
from broker.session.login.certificate_names import Naming
from broker.session.login.login_throttle import ThrottleLimits
from broker.session.message_interceptors import MessageInterceptors
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import Table
from storage.pending_sync import PendingSync

log = logging.getLogger("leveret.server")

DESCRIPTORS_RESERVED = 64
"""Open files kept for the broker: the stores, the administration socket, a backup."""
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"
FENCED = "broker forced connection closure with reason 'fenced'"
"""Texts of connection.close at a stop."""


class Listeners(NamedTuple):
    """The listening sockets, for AMQP and HTTP, and the certificates of those with TLS."""

    plain: list[socket.socket]
    secured: list[socket.socket]
    management: list[socket.socket]
    management_tls: list[socket.socket]
    prometheus: list[socket.socket]
    security: Security | None

    @property
    def http(self) -> list[socket.socket]:
        return self.management + self.management_tls + self.prometheus

    @property
    def all(self) -> list[socket.socket]:
        return self.plain + self.secured + self.http


class Server:
    """A running broker: its parts, made here, and its clients."""

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
        self.registry = Registry(broker, session_settings(config), parts.new_confirms)
        self.resources = ResourceWatch(config, broker.alarms, stores.messages.space, self.waiting_bytes)
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
        self.committer, self.shipping = self.engine.committer, shipping_of(config, stores, self.engine.committer)
        PAUSES.set(Pauses(lambda: self.committer.busy))  # long administrative work gives way to commits
        self.activity = self.engine.activity
        measurements = broker.statistics.measurements
        self.loop_metrics = LoopMetrics(measurements, stores.messages.io.recent, self.committer.waits, self.activity)
        self.transports: dict[Transport, None] = {}
        self.application = StoppableApplication(self.listening, self._close_all)
        self.control = NodeControl(config, self.registry, self.resources, self.activity, self.application)
        self.administration = Administration(
            broker,
            self.registry,
            self.definition_log,
            end_turn=self.engine.end_turn,
            copy_stores=self._copy_stores,
            status=self.status,
            process=self.control,
        )
        self.shovels = self.administration.shovels = shovel_host.ShovelHost(self)
        self.addresses: list[tuple[str, int]] = []
        self.tls_addresses: list[tuple[str, int]] = []
        self.http_addresses: list[tuple[str, int]] = []
        self.https_addresses: list[tuple[str, int]] = []
        self.metrics_addresses: list[tuple[str, int]] = []
        self.started = time.time()
        broker.alarms.observe(self._unblock)
        reserved = DESCRIPTORS_RESERVED + _descriptors_of_http(config)
        self.sockets_max = max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - reserved)
        """Largest number of connections, by the limit of open files."""
        self._full = False
        self._empty: trio.Event | None = None
        self._take_in = parts.take_in
        self._settings = parts.transport(config.limits.handshake_timeout_seconds)

    async def _copy_stores(self, directory: Path) -> None:
        """Copy both stores, with all messages that are on disk now."""
        await self.committer.catch_up()
        await self.copies.make(directory)

    def listen(self, bound: Listeners) -> None:
        """Accept clients, and watch memory, disk and heartbeats from now on."""
        self.addresses = [listener.getsockname()[:2] for listener in bound.plain]
        self.tls_addresses = [listener.getsockname()[:2] for listener in bound.secured]
        self.application.listens_on(bound)
        self.control.security = bound.security
        self.nursery.start_soon(self.resources.watch_memory, self.activity.pause)
        self.nursery.start_soon(self.resources.watch_disk, self.committer, self.activity.pause)
        self.nursery.start_soon(beat_forever, self.transports, self.engine)
        if self._settings.sockets is not None:
            self.nursery.start_soon(self._settings.sockets.run)
        self.nursery.start_soon(self.loop_metrics.run)
        for listener in bound.plain:
            self.nursery.start_soon(listeners.accept_forever, listener, self.accept, self.has_capacity)
        if bound.security is not None:
            accept = partial(self.accept_tls, bound.security)
            for listener in bound.secured:
                self.nursery.start_soon(listeners.accept_forever, listener, accept, self.has_capacity)

    def waiting_bytes(self) -> int:
        """Return the bytes that blocked publishers have sent: held methods, and input behind them."""
        behind = sum(each.frames.unhandled_bytes for each in self.transports if each.connection.held_bytes)
        return self.registry.held_bytes + behind

    def has_capacity(self) -> bool:
        """Return whether one more connection may be accepted; if not, close those in the handshake or ended."""
        full = len(self.transports) >= self.sockets_max
        if full and not self._full:
            log.error("connection limit reached (%d, from the open-files limit); not accepting", len(self.transports))
        self._full = full
        if full:
            self._drop_handshaking(0.9)
            self._dismiss()
        return not full

    def unready(self) -> str:
        """Return the reason why AMQP clients should not come now, or are not accepted; empty while they are."""
        if len(self.transports) >= self.sockets_max:
            return f"connection limit reached ({self.sockets_max})"
        return self.disk_watch.hangs()

    def _dismiss(self) -> None:
        """Close the sockets that clients keep open after connection.close-ok."""
        for transport in self.transports:
            transport.dismiss()

    def _drop_handshaking(self, part: float = 1.0) -> None:
        """Close connections in the handshake, oldest first, beyond `part` of `handshakes_max`."""
        handshaking = self.registry.handshaking
        while len(handshaking) > min(self.config.limits.handshakes_max, self.sockets_max // 2) * part:
            oldest = next(iter(handshaking))
            text = "closing connection %s: too many connections in the handshake (limits.handshakes_max)"
            log.warning(text, oldest.peer, extra=oldest.log_fields())
            handshaking.pop(oldest)()

    def accept(self, sock: socket.socket, peer: Peer) -> None:
        """Serve a new client without TLS."""
        taken = self._take_in(sock, peer)
        if taken is not None:
            self.serve_transport(self.transport(taken, peer))

    def admit(self, sock: socket.socket, vhost: str, properties: Table) -> None:
        """Serve a socket as an AMQP connection that may do anything: its peer has come by the administration socket."""
        sock.setblocking(False)
        local_connections.admit(self, sock, vhost, None, properties)

    def transport(self, sock: socket.socket, peer: Peer) -> Transport:
        """Return a transport for a socket without TLS."""
        return Transport(sock, peer, self.registry, self.engine, self.committer, self._settings, self.nursery)

    def accept_tls(self, security: Security, sock: socket.socket, peer: Peer) -> None:
        """Serve a new client with TLS."""
        taken = self._take_in(sock, peer)
        if taken is not None:
            shared = self.registry, self.engine, self.committer, self._settings, self.nursery
            self.serve_transport(SecureTransport(taken, peer, *shared, security))

    def serve_transport(self, transport: Transport) -> None:
        """Serve a client until it has gone."""
        assert transport not in self.transports, f"{transport.connection.peer} is served already"
        self.transports[transport] = None
        self._drop_handshaking()
        self.nursery.start_soon(self._serve_client, transport)

    async def _serve_client(self, transport: Transport) -> None:
        try:
            await transport.serve()
        except BrokenInvariant:
            raise
        except Exception:
            connection = transport.connection
            log.exception("error on connection %s", connection.peer, extra=connection.log_fields())
        finally:
            self.transports.pop(transport, None)
            self._maybe_empty()

    async def _close_all(self) -> None:
        """Close shovels and clients."""
        await self.shovels.stop()
        await self.close_clients()

    async def close_clients(self) -> None:
        """Close all connections with 320 CONNECTION_FORCED, and wait for clients at most 60 % of the stop's time."""
        self.registry.close_connections(SHUTDOWN if self.application.fenced is None else FENCED)
        self.engine.end_turn()
        self._dismiss()
        with trio.move_on_after(self.config.shutdown.timeout_seconds * 0.6):
            while self.transports:
                self._empty = trio.Event()
                await self._empty.wait()
        for transport in list(self.transports):
            transport.abort()

    def listening(self) -> Addresses:
        """Return the addresses by protocol."""
        return {
            "amqp": self.addresses,
            "amqp/ssl": self.tls_addresses,
            "http": self.http_addresses,
            "https": self.https_addresses,
            "http/prometheus": self.metrics_addresses,
        }

    def status(self) -> dict[str, Any]:
        """Return the broker's status. Sizes are bytes, times seconds."""
        directory, alarms, files = self.config.server.directory, self.broker.alarms, process_facts.open_files()
        self.loop_metrics.gather()
        return {
            "version": __version__,
            "core": CORE,
            "rabbitmq_version": self.config.identity.version,
            "node": self.control.node_name,
            "pid": os.getpid(),
            "uptime_seconds": round(time.time() - self.started, 1),
            "data_directory": str(directory.absolute()),
            **({"testing": TESTING_ON} if self.config.testing.enabled else {}),
            "listeners": _texts(self.addresses),
            "tls_listeners": _texts(self.tls_addresses),
            "http_listeners": _texts(self.http_addresses),
            "https_listeners": _texts(self.https_addresses),
            "metrics_listeners": _texts(self.metrics_addresses),
            "sockets": {"used": len(self.transports), "limit": self.sockets_max},
            "file_descriptors": {"used": -1 if files is None else files, "limit": process_facts.open_files_limit()},
            "log_files": self.control.log_files(),
            "cluster_name": self.registry.cluster_name,
            "boot": self.broker.boot,
            "alarms": [name for name in (MEMORY, DISK) if alarms.is_raised(name)],
            "memory": {
                "used_bytes": memory_used(),
                "limit_bytes": self.resources.memory_limit,
                "high_watermark": self.resources.memory_setting,
            },
            "disk": {
                "free_bytes": self.stores.messages.space.room_bytes(),
                "limit_bytes": self.resources.disk_free_limit,
                "hangs": self.disk_watch.hangs(),
                "pending_seconds": self.disk_watch.pending_seconds(),
            },
            "messages": self.stores.messages.statistics()._asdict(),
            "store_io": self.stores.messages.io.sums()._asdict(),
            **({} if self.shipping is None else {"ship": self.shipping.state()}),
        }

    def _maybe_empty(self) -> None:
        if self._empty is not None and not self.transports:
            self._empty.set()

    def _unblock(self) -> None:
        if not self.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()
            self.engine.end_turn()


def _pending_syncs(stores: Stores) -> list[PendingSync]:
    """Return the writes that each file of the stores waits for."""
    return [stores.messages.journal.pending, stores.messages.io.pending, stores.definitions.pending]


def _texts(addresses: list[tuple[str, int]]) -> list[str]:
    """Return addresses as the settings have them."""
    return [str(Address(*address)) for address in addresses]


def _descriptors_of_http(config: Config) -> int:
    """Return the descriptors that HTTP may need: a socket and a file for each connection."""
    management = config.management
    served = management.listen or management.tls_listen or config.prometheus.listen
    return 2 * config.http.connections_max if served else 0


def session_settings(config: Config) -> SessionSettings:
    """Return the settings that sessions need."""
    limits, identity = config.limits, config.identity
    return SessionSettings(
        channel_max=limits.channel_max,
        frame_max=limits.frame_max_bytes,
        heartbeat=limits.heartbeat_seconds,
        message_bytes_max=limits.message_bytes_max,
        consumers_per_channel_max=limits.consumers_per_channel_max,
        consumer_timeout=limits.consumer_timeout_seconds,
        connections_max=limits.connections_max,
        initial_frame_max=limits.initial_frame_max_bytes,
        queues_max=limits.queues_max,
        exchanges_max=limits.exchanges_max,
        incomplete_bytes_max=limits.incomplete_bytes_max or resource_alarms.memory_limit(config) // 4,
        turn_seconds=limits.turn_milliseconds / 1000,
        output_bytes_max=limits.output_bytes_max,
        held_bytes_max=limits.held_bytes_max,
        product=identity.product,
        version=identity.version,
        personality=config.personality,
        cluster_name=identity.shown_cluster_name,
        detailed_rates=config.management.rates_mode == "detailed",
        stamp_message_ids=config.events.enabled and config.events.stamp_message_ids,
        loopback_users=frozenset(config.defaults.loopback_users),
        throttle=ThrottleLimits(
            limits.wrong_passwords_max,
            limits.wrong_passwords_window_seconds,
            limits.wrong_passwords_wait_seconds_max,
        ),
        mechanisms=config.server.auth_mechanisms,
        interceptors=MessageInterceptors(
            config.message_interceptors.timestamp, config.message_interceptors.routing_node, identity.shown_node_name
        ),
        naming=Naming(config.tls.login_from, config.tls.login_san_type, config.tls.login_san_index),
    )
