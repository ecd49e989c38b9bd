"""From two files to a running broker, before the first connection.

SQLite is the truth about which queues exist, LMDB about their messages. Neither may be taken for another
broker's: both carry the same identity. Messages are removed only for queues whose deletion left a tombstone,
so a definitions file that was lost or swapped costs no messages: the start is refused.
"""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from broker.admin.apply_changes import take_effect
from broker.admin.definitions.definitions_import import UNFINISHED_IMPORT
from broker.admin.protocol import AdministrationError
from broker.admin.settings.policy_check import checked
from broker.config import Config, Defaults
from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.exchanges.exchange import Binding, Destination
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import QueueSpec
from broker.entities.queues.ready_messages import Window
from broker.entities.scheduling.clock import Clock, SteadyClock
from broker.entities.vhosts.broker import Broker, BrokerSettings, Pace
from broker.entities.vhosts.event_exchange import EventSettings
from broker.entities.vhosts.parameters import CLUSTER_ID
from broker.entities.vhosts.vhost import VHost
from broker.server import directory_lock
from broker.server.definition_writer import DefinitionLog
from broker.session.login.passwords import SHA256, hash_password
from broker.wire.field_tables import Table, decode_table, encode_table
from storage.batch import LaneState
from storage.definitions import features
from storage.definitions.definition_changes import (
    BindingRow,
    Change,
    Definitions,
    ExchangeRow,
    PermissionRow,
    PolicyRow,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    QueueRow,
    SetMetadata,
    UserRow,
    VhostRow,
)
from storage.definitions.definition_store import DefinitionsFull, DefinitionStore
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from storage.space import ballast

log = logging.getLogger("leveret.recovery")

DEFINITIONS_FILE = "definitions.sqlite"
MESSAGES_DIRECTORY = "messages"
_COMPLETE = "message_store"
_NO_ARGUMENTS = encode_table({})


class Stores(NamedTuple):
    """Both open stores of a data directory, and the lock that keeps others out."""

    definitions: DefinitionStore
    messages: MessageStore
    lock: int


def open_stores(directory: Path, lock: int | None = None, journal_bytes: int = 0, *, recorded: bool = False) -> Stores:
    """Open both stores, making them where nothing is yet. Raises StoreError, having touched nothing it cannot use.

    `lock`: of the directory, where the caller holds it already. `journal_bytes`: the size of the journal, 0: none.
    `recorded`: events of this boot are logged.
    """
    lock = directory_lock.lock(directory) if lock is None else lock
    fresh = not lmdb_environment.exists(directory / MESSAGES_DIRECTORY)
    with ExitStack() as undo:
        definitions = undo.enter_context(_open_definitions(directory, create=fresh))
        complete = _COMPLETE in definitions.metadata()
        messages = undo.enter_context(
            MessageStore.open(
                directory / MESSAGES_DIRECTORY,
                store_uuid=definitions.uuid,
                create=not complete,
                journal_bytes=journal_bytes,
                recorded=recorded,
            )
        )
        marks = [] if complete else [SetMetadata(_COMPLETE, b"created")]
        if journal_bytes and not features.used(features.JOURNAL, definitions.metadata()):
            marks.append(features.uses(features.JOURNAL))
        if marks:
            definitions.commit(marks)
        definitions.lift_queue_id(messages.highest_queue_id())
        undo.pop_all()
        return Stores(definitions, messages, lock)


def _open_definitions(directory: Path, *, create: bool) -> DefinitionStore:
    """On a full disk with what the ballast gives: consumers can make room only in a running broker."""
    try:
        return DefinitionStore.open(directory / DEFINITIONS_FILE, create=create)
    except DefinitionsFull:
        if not ballast.release(directory / MESSAGES_DIRECTORY):
            raise
        return DefinitionStore.open(directory / DEFINITIONS_FILE, create=create)


class Recovered(NamedTuple):
    """A broker with everything durable in it, what writes its definitions, the queues whose records are still to be
    cleared away, and what a crash has cut short of an import.
    """

    broker: Broker
    definition_log: DefinitionLog
    tombstones: frozenset[int]
    unfinished_import: bytes = b""


def recover(
    config: Config,
    stores: Stores,
    pace: Pace,
    *,
    default_user: bool = True,
    recorder: Recorder | None = None,
    clock: Clock | None = None,
) -> Recovered:
    """Bring back everything durable. New stores begin with the default virtual host and, if wanted, its user."""
    found = _with_defaults(config, stores, default_user=default_user)
    lanes = stores.messages.lanes()
    limits = config.limits
    highest_queue_id = max(found.queue_id_sequence, stores.messages.highest_queue_id())
    definition_log = DefinitionLog(stores.definitions, highest_queue_id, pace.wake, recorder)
    broker = Broker(
        BrokerSettings(
            Window(limits.queue_window_messages, limits.queue_window_bytes),
            config.store.batch_bytes_max,
            config.store.lazy_bytes_max,
            config.debug.check_invariants,
            PERSONALITIES[config.identity.personality],
        ),
        clock or SteadyClock(),
        stores.messages,
        definition_log,
        stores.messages.boot,
        pace,
        recorder=recorder,
        disk_free=stores.messages.space.room_bytes,
        events=event_settings(config),
    )
    broker.parameters.everywhere.setdefault(CLUSTER_ID, _cluster_id(stores.definitions.uuid))
    bring_back(broker, found, lanes)
    _sweep(stores, found, lanes)
    return Recovered(broker, definition_log, found.tombstones, found.metadata.get(UNFINISHED_IMPORT, b""))


def bring_back(broker: Broker, found: Definitions, lanes: Mapping[int, Mapping[int, LaneState]]) -> None:
    """Have an empty broker hold what the definitions store has found, with the messages that lanes count."""
    for change in settings_of(found):
        take_effect(broker, change)
    for exchange in found.exchanges:
        _restore_exchange(broker.vhosts[exchange.vhost], exchange, lanes.get(exchange.queue_id, {}))
    for queue in found.queues:
        _restore_queue(broker.vhosts[queue.vhost], queue, lanes.get(queue.id, {}))
    for binding in found.bindings:
        _restore_binding(broker.vhosts[binding.vhost], binding)


def event_settings(config: Config) -> EventSettings | None:
    """Where events are published; None where they are not."""
    wanted, vhost = config.event_exchange.enabled, config.event_exchange.vhost or config.defaults.vhost
    return EventSettings(vhost, config.identity.shown_node_name) if wanted else None


def _with_defaults(config: Config, stores: Stores, *, default_user: bool) -> Definitions:
    found = stores.definitions.load()
    if found.vhosts or found.users:
        return found
    stores.definitions.commit(default_definitions(config.defaults, default_user=default_user))
    return stores.definitions.load()


def default_definitions(defaults: Defaults, *, default_user: bool) -> list[Change]:
    """What a new data directory begins with: the default virtual host and, if wanted, its user."""
    changes: list[Change] = [PutVhost(VhostRow(defaults.vhost, "Default virtual host"))]
    if default_user:
        hashed = hash_password(defaults.password.encode())
        changes.append(PutUser(UserRow(defaults.user, hashed, SHA256, ("administrator",))))
        changes.append(PutPermission(PermissionRow(defaults.user, defaults.vhost, ".*", ".*", ".*")))
    return changes


def _cluster_id(uuid: bytes) -> str:
    """What the broker is known by, in the form of RabbitMQ's."""
    return f"rabbitmq-cluster-id-{urlsafe_b64encode(uuid).decode().rstrip('=')}"


def settings_of(found: Definitions) -> Iterator[Change]:
    """The changes that make everything but exchanges, queues and bindings what the store says it is."""
    yield from map(PutVhost, found.vhosts)
    yield from map(PutUser, found.users)
    yield from map(PutPermission, found.permissions)
    yield from map(PutTopicPermission, found.topic_permissions)
    yield from map(PutVhostLimit, found.vhost_limits)
    yield from map(PutUserLimit, found.user_limits)
    yield from map(PutPolicy, filter(_understood, found.policies))
    yield from map(PutParameter, found.parameters)
    yield from map(PutGlobalParameter, found.global_parameters)


def _understood(row: PolicyRow) -> bool:
    """A policy that another version or another Python has taken, and this one would not, is kept and not applied."""
    try:
        checked(row.name, row.pattern, row.apply_to, json.loads(row.definition), row.priority, operator=row.operator)
    except AdministrationError as error:
        log.error(
            "policy '%s' of vhost '%s' is not applied: %s", row.name, row.vhost, error, extra={"vhost": row.vhost}
        )
        return False
    return True


def _restore_exchange(vhost: VHost, row: ExchangeRow, states: Mapping[int, LaneState]) -> None:
    vhost.restore_exchange(
        row.name,
        row.type,
        auto_delete=row.auto_delete,
        internal=row.internal,
        arguments=_table(row.arguments),
        queue_id=row.queue_id,
        states=states,
    )


def _restore_queue(vhost: VHost, row: QueueRow, states: Mapping[int, LaneState]) -> None:
    spec = QueueSpec(row.name, True, False, row.auto_delete, _table(row.arguments))
    vhost.restore_queue(spec, row.id, states)


def _restore_binding(vhost: VHost, row: BindingRow) -> None:
    destination: Destination
    destination = (vhost.queues if row.destination_kind == "queue" else vhost.exchanges)[row.destination]
    # What is written down is what the binding was known by: to sort and encode its arguments again would take longer
    # than all the rest, and there may be hundreds of thousands.
    binding = Binding(vhost.exchanges[row.source], destination, row.routing_key, row.arguments)
    vhost.bindings.add(binding, _table(row.arguments))


def _sweep(stores: Stores, found: Definitions, lanes: dict[int, dict[int, LaneState]]) -> None:
    stores.messages.delete_queues(found.tombstones)
    named = {queue.id for queue in found.queues} | {exchange.queue_id for exchange in found.exchanges}
    orphans = lanes.keys() - named - found.tombstones
    if orphans:
        log.warning("the message store holds queues that no definition names; kept as they are: %s", sorted(orphans))


def _table(encoded: bytes) -> Table:
    return {} if encoded == _NO_ARGUMENTS else decode_table(encoded, 0)[0]
