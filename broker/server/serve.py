"""The running broker: what is started, in which order it ends.

Outside in: the stores are open as long as anything runs; the committer and the definition log end when the
last connection is gone and everything is written; connections end before them, listeners first of all. Read
`_serve` from the top for the start and from the bottom for the end.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from broker import __version__, logs
from broker.admin.administration import Administration
from broker.admin.definitions import definitions_import, event_exchange_setup
from broker.admin.definitions.definitions_file import DefinitionsFile, read_file
from broker.admin.node import process_facts
from broker.admin.node.testing_orders import ON
from broker.admin.protocol import AdministrationError
from broker.admin.short_steps import PAUSES, Pauses
from broker.config import Address, Config, ConfigError, Defaults
from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.entities.scheduling.future import Future
from broker.entities.scheduling.invariants import BrokenInvariant
from broker.entities.vhosts.event_exchange import INTERNAL
from broker.server import admin_socket, recovery, resource_alarms
from broker.server.committer import CommitLimits
from broker.server.engine import Engine, Wakeup
from broker.server.event_log import Events, closing_log
from broker.server.file_modes import keep_private
from broker.server.net import listeners, local_connections
from broker.server.net.chosen_parts import USUAL_PARTS, ChosenParts
from broker.server.net.heartbeats import beat_forever
from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import SecureTransport
from broker.server.net.transport import Transport
from broker.server.node_control import Addresses, NodeControl
from broker.server.pulse import Pulse
from broker.server.readiness import Readiness, url
from broker.server.recovery import Recovered, Stores
from broker.server.resource_alarms import ResourceWatch
from broker.server.shovels import shovel_host
from broker.server.start_line import CORE, log_started
from broker.server.store_copies import StoreCopies
from broker.session.consumer_timeout import Overdue
from broker.session.login.certificate_names import Naming
from broker.session.login.login_throttle import ThrottleLimits
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import Table
from storage.storage_errors import StoreError

if TYPE_CHECKING:
    from broker.testing.control import Testing

log = logging.getLogger("leveret.server")

COLLECT_AFTER = 25_000, 3, 1000
"""Objects, and collections of younger ones, after which Python looks for cycles. Messages come and go by the hundred
thousand without a cycle among them: looking as often as Python does by itself cost a twentieth of the rate. Looking at
millions at once, when so many have stayed, cost everybody up to 0.4 s."""

SWITCH_SECONDS = 0.0005
"""How long the event loop keeps the interpreter when the committer wants it, which is some twenty times in a commit.
With Python's 5 ms a client that keeps the loop busy made everybody's confirms wait for 0.1 to 0.4 s."""

DESCRIPTORS_RESERVED = 64
"""Open files that clients do not get: the stores, the operator's socket, a backup."""


class Listeners(NamedTuple):
    """Where clients come in: sockets that listen, for AMQP and for HTTP, and what TLS is spoken with."""

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


STOP_SIGNALS = signal.SIGTERM, signal.SIGINT
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class Server:
    """Everything that runs, put together."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        recovered: Recovered,
        wakeup: Wakeup,
        nursery: trio.Nursery,
        parts: ChosenParts = USUAL_PARTS,
    ) -> None:
        self.config = config
        self.stores = stores
        self.broker = broker = recovered.broker
        self.definition_log = recovered.definition_log
        self.nursery = nursery
        self.registry = Registry(broker, session_settings(config), parts.new_confirms)
        self.resources = ResourceWatch(config, broker.alarms, stores.messages.space, lambda: self.registry.held_bytes)
        self.copies = StoreCopies(stores, self.definition_log.drop_tombstones)
        self.engine = Engine(
            broker,
            stores.messages,
            wakeup,
            CommitLimits(config.store.backlog_batches_max, config.store.lazy_bytes_max),
            lazy_flush_seconds=config.store.lazy_flush_milliseconds / 1000,
            on_full=self.resources.disk_full,
            on_reclaimed=self.copies.reclaimed,
            writer=parts.writer,
        )
        self.committer = self.engine.committer
        PAUSES.set(Pauses(lambda: self.committer.busy))
        self.pulse = Pulse(broker.statistics.measurements, stores.messages.io.recent, self.committer.waits)
        self.transports: dict[Transport, None] = {}
        self.control = NodeControl(config, self.registry, self.resources, self.listening)
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
        """How many connections there are descriptors for."""
        self._full = False
        self._take_in = parts.take_in
        self._settings = parts.transport(config.limits.handshake_timeout_seconds)

    async def _copy_stores(self, directory: Path) -> None:
        """Copy both stores, with all messages that are on disk by now."""
        await self.committer.catch_up()
        await self.copies.make(directory)

    def listen(self, bound: Listeners) -> None:
        """Take clients in, and look after memory, disk and heartbeats from now on."""
        self.addresses = [listener.getsockname()[:2] for listener in bound.plain]
        self.tls_addresses = [listener.getsockname()[:2] for listener in bound.secured]
        self.control.security = bound.security
        self.nursery.start_soon(self.resources.watch_memory)
        self.nursery.start_soon(self.resources.watch_disk, self.committer)
        self.nursery.start_soon(beat_forever, self.transports, self.engine)
        self.nursery.start_soon(self.pulse.run)
        Overdue(self.registry).watch()
        for listener in bound.plain:
            self.nursery.start_soon(listeners.accept_forever, listener, self.accept, self.has_capacity)
        if bound.security is not None:
            accept = partial(self.accept_tls, bound.security)
            for listener in bound.secured:
                self.nursery.start_soon(listeners.accept_forever, listener, accept, self.has_capacity)

    def has_capacity(self) -> bool:
        """There may be one more connection, and the broker still has descriptors for itself and its operator."""
        full = len(self.transports) >= self.sockets_max
        if full and not self._full:
            log.error("connection limit reached (%d, from the open-files limit); not accepting", len(self.transports))
        self._full = full
        if full:
            self._drop_handshaking(0.9)
            self._dismiss()
        return not full

    def _dismiss(self) -> None:
        """Close sockets that clients keep open after connection.close-ok."""
        for transport in self.transports:
            transport.dismiss()

    def _drop_handshaking(self, part: float = 1.0) -> None:
        """Close connections still in the handshake, the oldest first, where there are more than `handshakes_max`."""
        handshaking = self.registry.handshaking
        while len(handshaking) > min(self.config.limits.handshakes_max, self.sockets_max // 2) * part:
            oldest = next(iter(handshaking))
            text = "closing connection %s: too many connections in the handshake (limits.handshakes_max)"
            log.warning(text, oldest.peer, extra=oldest.log_fields())
            handshaking.pop(oldest)()

    def accept(self, sock: socket.socket, peer: Peer) -> None:
        """Serve a new client."""
        taken = self._take_in(sock, peer)
        if taken is not None:
            self.serve_transport(self.transport(taken, peer))

    def admit(self, sock: socket.socket, vhost: str, properties: Table) -> None:
        """Serve a socket of somebody who may do anything as an AMQP connection."""
        sock.setblocking(False)
        local_connections.admit(self, sock, vhost, None, properties)

    def transport(self, sock: socket.socket, peer: Peer) -> Transport:
        """What brings bytes between a socket without TLS and a connection."""
        return Transport(sock, peer, self.registry, self.engine, self.committer, self._settings, self.nursery)

    def accept_tls(self, security: Security, sock: socket.socket, peer: Peer) -> None:
        """Serve a new client that speaks TLS."""
        taken = self._take_in(sock, peer)
        if taken is not None:
            shared = self.registry, self.engine, self.committer, self._settings, self.nursery
            self.serve_transport(SecureTransport(taken, peer, *shared, security))

    def serve_transport(self, transport: Transport) -> None:
        """Serve a client until it has gone."""
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

    async def close_clients(self) -> None:
        """Send everybody away, and wait until they are gone, but not longer than the configuration says."""
        self.registry.close_connections(SHUTDOWN)
        self.engine.end_turn()
        self._dismiss()
        with trio.move_on_after(self.config.shutdown.timeout_seconds * 0.6):
            while self.transports:
                self._empty = trio.Event()
                await self._empty.wait()
        for transport in list(self.transports):
            transport.abort()

    def listening(self) -> Addresses:
        """Where each protocol is listened for."""
        return {
            "amqp": self.addresses,
            "amqp/ssl": self.tls_addresses,
            "http": self.http_addresses,
            "https": self.https_addresses,
            "http/prometheus": self.metrics_addresses,
        }

    def status(self) -> dict[str, Any]:
        """What this broker is and how it does. Sizes are bytes, times seconds."""
        directory, alarms, files = self.config.server.directory, self.broker.alarms, process_facts.open_files()
        self.pulse.gather()
        return {
            "version": __version__,
            "core": CORE,
            "rabbitmq_version": self.config.identity.version,
            "node": self.control.node_name,
            "pid": os.getpid(),
            "uptime_seconds": round(time.time() - self.started, 1),
            "data_directory": str(directory.absolute()),
            **({"testing": ON} if self.config.testing.enabled else {}),
            "listeners": [f"{host}:{port}" for host, port in self.addresses],
            "tls_listeners": [f"{host}:{port}" for host, port in self.tls_addresses],
            "http_listeners": [f"{host}:{port}" for host, port in self.http_addresses],
            "https_listeners": [f"{host}:{port}" for host, port in self.https_addresses],
            "metrics_listeners": [f"{host}:{port}" for host, port in self.metrics_addresses],
            "sockets": {"used": len(self.transports), "limit": self.sockets_max},
            "file_descriptors": {"used": -1 if files is None else files, "limit": process_facts.open_files_limit()},
            "log_files": self.control.log_files(),
            "cluster_name": self.registry.cluster_name,
            "boot": self.broker.boot,
            "alarms": [name for name in (MEMORY, DISK) if alarms.is_raised(name)],
            "memory": {
                "used_bytes": resource_alarms.memory_used(),
                "limit_bytes": self.resources.memory_limit,
                "high_watermark": self.resources.memory_setting,
            },
            "disk": {
                "free_bytes": self.stores.messages.space.room_bytes(),
                "limit_bytes": self.resources.disk_free_limit,
            },
            "messages": self.stores.messages.statistics()._asdict(),
            "store_io": self.stores.messages.io.sums()._asdict(),
        }

    _empty: trio.Event | None = None

    def _maybe_empty(self) -> None:
        if self._empty is not None and not self.transports:
            self._empty.set()

    def _unblock(self) -> None:
        if not self.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()
            self.engine.end_turn()


def run(config: Config, on_ready: Callable[[], None] | None = None, settings_files: Sequence[Path] = ()) -> int:
    """Run the broker until a signal to stop; the process's exit code. `on_ready` is called when all is open, the log
    names the files that the settings were read from.

    Raises StoreError and ListenError for what keeps it from starting.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_SECONDS)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a log that is rotated during the start ends nothing
    return trio.run(_serve, config, Readiness(os.environ, on_ready, settings_files))


async def _serve(config: Config, readiness: Readiness) -> int:
    directory = config.server.directory
    testing = _testing() if config.testing.enabled else None
    os.umask(0o077)  # whatever is made in the data directory is its owner's alone
    with _starting():
        shovel_host.check(config.shovels)
        imported = await _read_definitions(config.definitions.file)
        resource_alarms.raise_open_files_limit()
        resource_alarms.keep_freed_memory()
        bound = _bind_listeners(config)
    try:
        with _starting():
            stores = recovery.open_stores(directory, journal_bytes=config.store.journal_bytes)
        keep_private(directory)
        resource_alarms.warn_of_network_file_system(directory)
        try:
            gc.disable()  # what comes back stays: looking for cycles in it while it grows took half of the time
            wakeup = Wakeup()
            with _starting():
                events = Events(config, stores.messages) if config.events.enabled else None
                recorder = None if events is None else events.recorder
                if testing is not None:
                    recorder = testing.recorder(stores.messages.boot, recorder)
                recovered = recovery.recover(
                    config,
                    stores,
                    wakeup.pace,
                    default_user=_wants_default_user(config, imported),
                    recorder=recorder,
                    clock=None if testing is None else testing.clock,
                )
            gc.freeze()
            gc.enable()
            # Until the stores are closed, so that a second signal does not cut the end short.
            with (
                trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR1) as signals,
                closing_log(events),
            ):
                await _run(config, stores, recovered, wakeup, bound, imported, signals, events, readiness, testing)
        finally:
            with _limited(config):
                stores.definitions.close()
                stores.messages.close()
            os.close(stores.lock)
    finally:
        for listener in bound.all:
            listener.close()
    log.info("stopped")
    return 0


def _testing() -> Testing:
    # Imported here: hardly any broker takes orders of tests.
    from broker.testing.control import Testing

    return Testing()


@contextmanager
def _starting() -> Iterator[None]:
    """A start that fails says so in one line, whatever the cause: an unforeseen exception becomes an error of ours."""
    try:
        yield
    except (AdministrationError, ConfigError, StoreError, OSError):
        raise
    except Exception as error:
        log.debug("the start failed", exc_info=True)
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise AdministrationError("failed", f"the start failed: {what} ({place.filename}:{place.lineno})") from error


async def _read_definitions(where: str) -> DefinitionsFile | None:
    if "://" not in where:
        return read_file(Path(where)) if where else None
    # Imported here: hardly any broker asks another one, and HTTP with TLS takes time to load.
    from broker.admin.definitions.definitions_url import read_url

    return await read_url(where)


def _bind_listeners(config: Config) -> Listeners:
    """Read the certificates and listen. Raises ConfigError and ListenError, with nothing open."""
    security = Security(config.tls) if config.tls.listen or config.management.tls_listen else None
    default = Config()
    kinds = [
        ("server.listen, LEVERET_LISTEN or --listen", config.server.addresses, False),
        ("tls.listen", config.tls.addresses, False),
        ("management.listen", config.management.addresses, config.management.listen == default.management.listen),
        ("management.tls_listen", config.management.tls_addresses, False),
        ("prometheus.listen", config.prometheus.addresses, config.prometheus.listen == default.prometheus.listen),
    ]
    with ExitStack() as opened:
        bound = list[list[socket.socket]]()
        for setting, addresses, dispensable in kinds:
            bound.append(_bound(setting, addresses, config.server.backlog, dispensable=dispensable))
            for listener in bound[-1]:
                opened.callback(listener.close)
        opened.pop_all()
    plain, secured, management, management_tls, prometheus = bound
    return Listeners(plain, secured, management, management_tls, prometheus, security)


def _bound(setting: str, addresses: list[Address], backlog: int, *, dispensable: bool) -> list[socket.socket]:
    """Sockets that listen. A default address that is taken, perhaps by another broker, does not keep this one from
    serving AMQP. Raises ListenError."""
    try:
        return listeners.bind(addresses, backlog, setting)
    except listeners.ListenError as error:
        if not dispensable:
            raise
        log.warning("%s; going on without (%s = [] or another address ends this warning)", error, setting)
        return []


def _wants_default_user(config: Config, imported: DefinitionsFile | None) -> bool:
    """A new data directory has no default user where a definitions file brings users, unless settings name one."""
    named = config.defaults.user, config.defaults.password
    return imported is None or not imported.users or named != (Defaults().user, Defaults().password)


async def _run(
    config: Config,
    stores: Stores,
    recovered: Recovered,
    wakeup: Wakeup,
    bound: Listeners,
    imported: DefinitionsFile | None,
    signals: AsyncIterator[int],
    events: Events | None,
    readiness: Readiness,
    testing: Testing | None,
) -> None:
    async with trio.open_nursery() as writers, trio.open_nursery() as clients:
        server = Server(config, stores, recovered, wakeup, clients, USUAL_PARTS if testing is None else testing.parts)
        starting = server.administration.acting_for(INTERNAL)
        writers.start_soon(server.definition_log.run)
        if recovered.unfinished_import:
            await _finish_import(starting, recovered.unfinished_import)
        if server.broker.event_exchange is not None:
            await event_exchange_setup.declare(starting, server.broker.event_exchange)
        if imported is not None:
            with _starting():
                log.info("definitions imported: %s", await definitions_import.add(starting, imported))
        if testing is not None:
            testing.attach(server, imported, default_user=_wants_default_user(config, imported))
        server.committer.start(recovered.tombstones)
        writers.start_soon(server.committer.watch)
        writers.start_soon(server.engine.run)
        if events is not None:
            writers.start_soon(events.run, server.broker)
        with admin_socket.listening(config.server.directory) as operators:
            clients.start_soon(admin_socket.serve, server.administration, operators, server.admit)
            server.listen(bound)
            server.shovels.begin(config.shovels)
            log_started(readiness.settings_files, config, server.broker, server.resources, server.sockets_max)
            readiness.accepting(server.addresses, server.tls_addresses, config.server.directory)
            clients.start_soon(_open_http, server, bound, readiness)
            clients.start_soon(readiness.feed_watchdog)
            async for number in signals:
                if number in STOP_SIGNALS:
                    log.info("stopping on %s", signal.Signals(number).name)
                    readiness.stopping()
                    break
                if number == signal.SIGUSR1:
                    logs.reopen()
                else:
                    _reload(bound)
            await _stop(server, bound, events)
        clients.cancel_scope.cancel()
        writers.cancel_scope.cancel()


async def _finish_import(administration: Administration, unfinished: bytes) -> None:
    log.warning("an import of definitions was cut short; finishing it")
    try:
        log.info("definitions imported: %s", await definitions_import.resume(administration, unfinished))
    except AdministrationError as error:
        log.error("the import that was cut short cannot be finished, import the file again: %s", error)


async def _open_http(server: Server, bound: Listeners, readiness: Readiness) -> None:
    """Serve HTTP, if it has addresses. AMQP clients are served already: what it needs is loaded now, in a thread."""
    if not bound.http:
        readiness.ready()
        return
    await trio.to_thread.run_sync(import_module, "broker.server.http.http_services")
    from broker.server.http.http_services import HttpServices

    services = HttpServices(server.config, server.registry, server.administration, server.nursery)
    for sockets, scheme, security, listen, addresses in (
        (bound.management, "http", None, services.listen_management, server.http_addresses),
        (bound.management_tls, "https", bound.security, services.listen_management, server.https_addresses),
        (bound.prometheus, "http", None, services.listen_prometheus, server.metrics_addresses),
    ):
        for listener in sockets:
            if listener.fileno() < 0:  # closed: a signal to stop came while the thread was at it
                return
            host, port = listener.getsockname()[:2]
            listen(listener, security)
            addresses.append((host, port))
            log.info("listening for HTTP on %s", url(scheme, host, port))
    readiness.ready()


def _reload(bound: Listeners) -> None:
    """SIGHUP: the certificates are read again. There is nothing else to reload."""
    if bound.security is None:
        log.info("nothing to reload on SIGHUP: there is no TLS")
    else:
        bound.security.reload()


async def _stop(server: Server, bound: Listeners, events: Events | None) -> None:
    with _limited(server.config), trio.CancelScope(shield=True):
        for listener in bound.all:
            trio.lowlevel.notify_closing(listener)  # ends its accept task
            listener.close()
        await server.shovels.stop()
        await server.close_clients()
        server.broker.background_work.finish()
        await _work_off(server)
        if server.broker.event_exchange is not None:
            server.broker.event_exchange.publish_waiting()
        server.engine.stop()
        await server.definition_log.flush()
        await server.committer.finish()
    if events is not None:
        events.record_stop(server.broker, server.config.shutdown.timeout_seconds)


@contextmanager
def _limited(config: Config) -> Iterator[None]:
    """End the process if this takes too long. Stores are not closed under a thread that writes: it waits for the disk,
    which may never answer, and no thread can be ended from outside."""
    timer = threading.Timer(config.shutdown.timeout_seconds, _give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _give_up() -> None:
    log.error("stopping with data unwritten: the disk is full, or does not answer")
    logging.shutdown()
    os._exit(1)


async def _work_off(server: Server) -> None:
    """Wait for what queues clear away at the disk's pace. What takes too long is there again after the next start."""
    with trio.move_on_after(server.config.shutdown.timeout_seconds * 0.2):
        for work in server.broker.background_work.unfinished:
            await _settled(work)


async def _settled(future: Future[None]) -> None:
    settled = trio.Event()
    future.then(lambda _: settled.set())
    await settled.wait()


def _descriptors_of_http(config: Config) -> int:
    """A socket and a file for each connection."""
    management = config.management
    served = management.listen or management.tls_listen or config.prometheus.listen
    return 2 * config.http.connections_max if served else 0


def session_settings(config: Config) -> SessionSettings:
    """The part of the configuration that sessions see."""
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
        personality=PERSONALITIES[identity.personality],
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
        naming=Naming(config.tls.login_from, config.tls.login_san_type, config.tls.login_san_index),
    )
