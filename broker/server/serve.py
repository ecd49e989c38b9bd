"""Start and stop of a broker, and their order.

The stores are open as long as anything runs; the committer and the definition log end when the
last connection is closed and everything is written; connections end before them, listeners first of all. Read
`_serve` from the top for the start and from the bottom for the stop.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from broker import freed_memory, logs
from broker.admin.administration import Administration
from broker.admin.definitions import definitions_import, event_exchange_setup
from broker.admin.definitions.definitions_file import DefinitionsFile, read_file
from broker.admin.protocol import AdministrationError
from broker.config import Address, Config, ConfigError, DefaultsSettings
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.server import admin_socket, directory_lock, recovery, resource_alarms
from broker.server.commits.commit_policy import SWITCH_SECONDS
from broker.server.engine import Wakeup
from broker.server.event_log import Events, closing_log
from broker.server.file_modes import keep_private
from broker.server.net import listeners
from broker.server.net.bound_listeners import Listeners, with_ports
from broker.server.net.replaceable_parts import USUAL_PARTS
from broker.server.net.tls_context import Security
from broker.server.recovery import Recovered, Stores
from broker.server.server import Server
from broker.server.shipping import shipping
from broker.server.shipping.running_shipping import RunningShipping
from broker.server.shovels import shovel_host
from broker.server.start.readiness import Readiness, url
from broker.server.start.start_line import log_started
from broker.settled_future import settled
from storage.ship.place_owner import PlaceOwner
from storage.storage_errors import StoreError

if TYPE_CHECKING:
    from broker.server.http.web_sites import WebSites
    from broker.testing.control import Testing

log = logging.getLogger("leveret.server")

COLLECT_AFTER = 25_000, 3, 1000
"""Thresholds of Python's garbage collector, by generation. Messages come and go by the hundred
thousand without a cycle among them: Python's own thresholds cost a twentieth of the rate, and collecting the oldest
generation with millions of objects cost all clients up to 0.4 s."""

STOP_SIGNALS = signal.SIGTERM, signal.SIGINT


def run(config: Config, on_ready: Callable[[], None] | None = None, settings_files: Sequence[Path] = ()) -> int:
    """Run the broker until a signal stops it, and return the process's exit code.

    `on_ready` is called when all listeners are open; `settings_files` are named in the log. Raises StoreError,
    ListenError and the like if the start fails.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_SECONDS)
    readiness = Readiness(os.environ, on_ready, settings_files)
    again: Config | None = config
    while again is not None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # rotating the log during the start must not end the process
        again = trio.run(_serve, again, readiness)
        if again is not None:  # an end does not wait for a walk over all that was recovered
            gc.unfreeze()
            gc.collect()
    log.info("stopped")
    return 0


class _Opened(NamedTuple):
    """A broker whose stores are open, before anything runs; `owner`: of the place that it ships to."""

    config: Config
    stores: Stores
    owner: PlaceOwner | None
    recovered: Recovered
    wakeup: Wakeup
    imported: DefinitionsFile | None
    events: Events | None
    testing: Testing | None


async def _serve(config: Config, readiness: Readiness) -> Config | None:
    """Run the broker until it stops. Returns the settings with which it is to start again, if it is."""
    directory = config.server.directory
    testing = _testing() if config.testing.enabled else None
    os.umask(0o077)  # files in the data directory are for their owner alone
    with _starting():  # everything that can fail without touching a file: settings, definitions, ports
        shovel_host.check(config.shovels)
        shipping.check(config)
        imported = await _read_definitions(config.definitions.file)
        resource_alarms.raise_open_files_limit()
        freed_memory.keep_freed_memory()
        bound = bind_listeners(config)
    try:
        with _starting():
            owner, stores = _open_stores(config)
        keep_private(directory)
        resource_alarms.warn_of_network_file_system(directory)
        resource_alarms.warn_of_unknown_memory()
        try:
            gc.disable()  # recovered objects are not garbage: collections among them took half of the start's time
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
            # Signals are received until the stores are closed, so that a second one does not cut the stop short.
            with (
                trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR1) as signals,
                closing_log(events),
            ):
                opened = _Opened(config, stores, owner, recovered, wakeup, imported, events, testing)
                return await _run(opened, bound, signals, readiness)
        finally:
            with _limited(config):
                stores.definitions.close()
                stores.messages.close()
            os.close(stores.lock)
    finally:
        bound.close()


def _open_stores(config: Config) -> tuple[PlaceOwner | None, Stores]:
    """Open the stores, if the broker may serve; return its ownership of the second place too. Raises StoreError."""
    directory = config.server.directory
    lock = directory_lock.lock(directory)
    owner = shipping.owner_of(config)
    return owner, recovery.open_stores(
        directory,
        lock,
        journal_bytes=config.store.journal_bytes,
        recorded=config.events.enabled,
        accept_loss=config.store.accept_loss,
        known_boot=recovery.logged_boot(config),
    )


def _testing() -> Testing:
    # Imported here: few brokers have [testing] on.
    from broker.testing.control import Testing

    return Testing()


@contextmanager
def _starting() -> Iterator[None]:
    """Turn an unforeseen exception during the start into AdministrationError, so that it is reported in one line."""
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
    # Imported here: few brokers import definitions from a URL, and HTTP with TLS takes time to load.
    from broker.admin.definitions.definitions_url import read_url

    return await read_url(where)


def bind_listeners(config: Config) -> Listeners:
    """Read the certificates and listen. If it raises ConfigError or ListenError, no socket is open."""
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
    """Listen on the addresses of a setting. Raises ListenError, but for `dispensable` ones, which are the default: the
    broker serves AMQP all the same if another one has these ports."""
    try:
        return listeners.bind(addresses, backlog, setting)
    except listeners.ListenError as error:
        if not dispensable:
            raise
        log.warning("%s; going on without (%s = [] or another address ends this warning)", error, setting)
        return []


def _wants_default_user(config: Config, imported: DefinitionsFile | None) -> bool:
    """Return whether a new data directory gets the default user: not if definitions bring users, unless it is set."""
    named = config.defaults.user, config.defaults.password
    return imported is None or not imported.users or named != (DefaultsSettings().user, DefaultsSettings().password)


async def _run(opened: _Opened, bound: Listeners, signals: AsyncIterator[int], readiness: Readiness) -> Config | None:
    config, stores, owner, recovered, wakeup, imported, events, testing = opened
    again = with_ports(config, bound)
    # Clients end before the writers that make their changes durable.
    async with trio.open_nursery() as writers, trio.open_nursery() as clients:
        server = Server(config, stores, recovered, wakeup, clients, USUAL_PARTS if testing is None else testing.parts)
        writers.start_soon(server.definition_log.run)
        server.control.shipping = ships = RunningShipping(
            config, stores, server.committer, writers, server.application.end_fenced
        )
        if owner is not None:
            ships.start(owner)
        # Changes may be applied in several turns, so turns end from here on.
        server.committer.start(recovered.tombstones)
        writers.start_soon(server.committer.watch)
        writers.start_soon(server.engine.run)
        # Definitions are complete before the first client, so that none finds half of them.
        await _complete_definitions(server, recovered.unfinished_import, imported)
        if testing is not None:
            testing.attach(server, imported, default_user=_wants_default_user(config, imported))
        if events is not None:
            server.control.events = events
            writers.start_soon(events.run, server.broker)
        with admin_socket.listening(config.server.directory) as operators, _watching(server, bound, operators):
            clients.start_soon(admin_socket.serve, server.administration, operators, server.clients.admit)
            server.listen(bound)
            addresses = server.application.addresses
            server.shovels.begin(config.shovels)
            log_started(
                readiness.settings_files, config, server.broker, server.resources, server.clients.connections_max
            )
            readiness.accepting(addresses["amqp"], addresses["amqp/ssl"], config.server.directory)
            clients.start_soon(_open_http, server, bound, readiness)
            clients.start_soon(readiness.feed_watchdog)
            with server.application.starts_again:
                await handle_signals(signals, bound, readiness)
            await _stop(server, bound, events)
        clients.cancel_scope.cancel()
        writers.cancel_scope.cancel()
    if server.application.fenced is not None:
        raise server.application.fenced
    return again if server.application.starts_again.cancelled_caught else None


@contextmanager
def _watching(server: Server, bound: Listeners, operators: trio.SocketListener) -> Iterator[None]:
    """Watch for a disk that hangs meanwhile."""
    with (
        socket.fromfd(operators.socket.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as listening,
        server.disk_watch.running([*bound.management, *bound.prometheus], listening),
    ):
        yield


async def handle_signals(signals: AsyncIterator[int], bound: Listeners, readiness: Readiness) -> None:
    """Obey signals; return at the one to stop."""
    async for number in signals:
        if number in STOP_SIGNALS:
            log.info("stopping on %s", signal.Signals(number).name)
            readiness.stopping()
            return
        if number == signal.SIGUSR1:
            logs.reopen()
        else:
            _reload(bound)


async def _complete_definitions(server: Server, unfinished: bytes, imported: DefinitionsFile | None) -> None:
    """Finish an import that was cut short, and carry out the one that the settings name. Raises AdministrationError."""
    starting = server.administration.acting_for(INTERNAL)
    try:
        if unfinished:
            await _finish_import(starting, unfinished)
        if server.broker.event_exchange is not None:
            await event_exchange_setup.declare(starting, server.broker.event_exchange)
        if imported is not None:
            with _starting():
                made = await definitions_import.add(starting, imported)
            log.info("definitions imported: %s", definitions_import.in_words(made))
    except Exception:
        server.engine.stop()
        await server.committer.finish()  # the stores are closed next
        raise


async def _finish_import(administration: Administration, unfinished: bytes) -> None:
    log.warning("an import of definitions was cut short; finishing it")
    try:
        made = await definitions_import.resume(administration, unfinished)
        log.info("definitions imported: %s", definitions_import.in_words(made))
    except AdministrationError as error:
        log.error("the import that was cut short cannot be finished, import the file again: %s", error)


async def _open_http(server: Server, bound: Listeners, readiness: Readiness) -> None:
    """Serve HTTP, if it has addresses. Its modules are loaded in a thread, because AMQP clients are served already."""
    if not bound.http:
        readiness.ready()
        return
    await trio.to_thread.run_sync(import_module, "broker.server.http.http_services")
    from broker.server.http.http_services import HttpServices

    services = HttpServices(
        server.config, server.registry, server.administration, server.nursery, server.unready, server.disk_watch.hangs
    )
    server.application.http = services.sites
    if listen_http(services.sites, server.application.addresses, bound):
        readiness.ready()


def listen_http(sites: WebSites, shown: dict[str, list[tuple[str, int]]], bound: Listeners) -> bool:
    """Serve both sites on their sockets, and note the addresses. False if the sockets are closed already."""
    for sockets, scheme, security, listen, protocol in (
        (bound.management, "http", None, sites.listen_management, "http"),
        (bound.management_tls, "https", bound.security, sites.listen_management, "https"),
        (bound.prometheus, "http", None, sites.listen_prometheus, "http/prometheus"),
    ):
        for listener in sockets:
            if listener.fileno() < 0:  # closed: the stop began while the modules were loaded
                return False
            host, port = listener.getsockname()[:2]
            listen(listener, security)
            shown[protocol].append((host, port))
            log.info("listening for HTTP on %s", url(scheme, host, port))
    return True


def _reload(bound: Listeners) -> None:
    """Reload the certificates, on SIGHUP. Nothing else can be reloaded."""
    if bound.security is None:
        log.info("nothing to reload on SIGHUP: there is no TLS")
    else:
        bound.security.reload()


async def _stop(server: Server, bound: Listeners, events: Events | None) -> None:
    with _limited(server.config), trio.CancelScope(shield=True):
        bound.close()
        await server.shovels.stop()
        await server.close_clients()
        server.broker.background_work.finish()
        await _work_off(server)
        if server.broker.event_exchange is not None:
            server.broker.event_exchange.publish_waiting()
        server.engine.stop()
        await server.definition_log.flush()
        await server.committer.finish()
        if server.control.shipping is not None:
            await server.control.shipping.stop(server.config.shutdown.timeout_seconds)
    if events is not None:
        events.record_stop(server.broker, server.config.shutdown.timeout_seconds)


@contextmanager
def _limited(config: Config) -> Iterator[None]:
    """End the process if the body takes longer than `shutdown.timeout_seconds`: the commit thread may wait for a disk
    that never answers, no thread can be ended from outside, and stores must not be closed while it runs."""
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
    """Wait for background work, at most a fifth of the stop's time. The rest is due again after the next start."""
    with trio.move_on_after(server.config.shutdown.timeout_seconds * 0.2):
        for work in server.broker.background_work.unfinished:
            await settled(work)
