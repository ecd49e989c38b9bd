"""From two files to a running broker, before the first connection.

SQLite is the truth about which queues exist, LMDB about their messages. Neither may be taken for another
broker's: both carry the same identity. Messages are removed only for queues whose deletion left a tombstone,
so a definitions file that was lost or swapped costs no messages: the start is refused.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from broker.config import Config
from broker.entities.backlog import Window
from broker.entities.broker import Broker, BrokerSettings
from broker.entities.clock import SteadyClock
from broker.entities.exchanges import Destination
from broker.entities.queue import QueueSpec
from broker.entities.users import Permission, TopicPermission, User
from broker.entities.vhost import VHost
from broker.server.definition_log import DefinitionLog
from broker.session.passwords import SHA256, hash_password
from broker.wire.tables import Table, decode_table
from storage import creation
from storage.batch import LaneState
from storage.definition_changes import (
    BindingRow,
    Definitions,
    ExchangeRow,
    PermissionRow,
    PutPermission,
    PutUser,
    PutVhost,
    QueueRow,
    SetMetadata,
    UserRow,
    VhostRow,
)
from storage.definitions import DefinitionStore
from storage.messages import MessageStore

log = logging.getLogger("leveret.recovery")

DEFINITIONS_FILE = "definitions.sqlite"
MESSAGES_DIRECTORY = "messages"
_COMPLETE = "message_store"


class Stores(NamedTuple):
    """Both open stores of a data directory, and the lock that keeps others out."""

    definitions: DefinitionStore
    messages: MessageStore
    lock: int


def open_stores(directory: Path) -> Stores:
    """Open both stores, making them where nothing is yet. Raises StoreError, having touched nothing it cannot use."""
    lock = creation.lock(directory / "broker")
    fresh = not creation.exists(directory / MESSAGES_DIRECTORY)
    definitions = DefinitionStore.open(directory / DEFINITIONS_FILE, create=fresh)
    try:
        complete = _COMPLETE in definitions.load().metadata
        messages = MessageStore.open(directory / MESSAGES_DIRECTORY, store_uuid=definitions.uuid, create=not complete)
        if not complete:
            definitions.commit([SetMetadata(_COMPLETE, b"created")])
        definitions.lift_queue_id(messages.highest_queue_id())
    except BaseException:
        definitions.close()
        raise
    return Stores(definitions, messages, lock)


class Recovered(NamedTuple):
    """A broker with everything durable in it, and the queues whose records are still to be cleared away."""

    broker: Broker
    tombstones: frozenset[int]


def recover(config: Config, stores: Stores) -> Recovered:
    """Bring back everything durable."""
    found = _with_defaults(config, stores)
    lanes = stores.messages.lanes()
    limits = config.limits
    broker = Broker(
        BrokerSettings(Window(limits.queue_window_messages, limits.queue_window_bytes), config.store.batch_bytes_max),
        SteadyClock(),
        stores.messages,
        DefinitionLog(stores.definitions, max(found.queue_id_sequence, stores.messages.highest_queue_id())),
        stores.messages.boot,
    )
    _restore_users(broker, found)
    for vhost in found.vhosts:
        broker.add_vhost(vhost.name)
    for exchange in found.exchanges:
        _restore_exchange(broker.vhosts[exchange.vhost], exchange)
    for queue in found.queues:
        _restore_queue(broker.vhosts[queue.vhost], queue, lanes.get(queue.id, {}).get(0, LaneState()))
    for binding in found.bindings:
        _restore_binding(broker.vhosts[binding.vhost], binding)
    _sweep(stores, found, lanes)
    return Recovered(broker, found.tombstones)


def _with_defaults(config: Config, stores: Stores) -> Definitions:
    """What the definitions store holds; a new one begins with the default virtual host and user."""
    found = stores.definitions.load()
    if found.vhosts:
        return found
    defaults = config.defaults
    stores.definitions.commit(
        [
            PutVhost(VhostRow(defaults.vhost, "Default virtual host")),
            PutUser(UserRow(defaults.user, hash_password(defaults.password.encode()), SHA256, ("administrator",))),
            PutPermission(PermissionRow(defaults.user, defaults.vhost, ".*", ".*", ".*")),
        ]
    )
    return stores.definitions.load()


def _restore_users(broker: Broker, found: Definitions) -> None:
    users = broker.users
    for user in found.users:
        users.by_name[user.name] = User(*user)
    for permission in found.permissions:
        users.permissions[permission.vhost, permission.user] = Permission(
            permission.configure, permission.write, permission.read
        )
    for topic in found.topic_permissions:
        users.topic_permissions[topic.vhost, topic.user, topic.exchange] = TopicPermission(topic.write, topic.read)


def _restore_exchange(vhost: VHost, row: ExchangeRow) -> None:
    vhost.restore_exchange(
        row.name, row.type, auto_delete=row.auto_delete, internal=row.internal, arguments=_table(row.arguments)
    )


def _restore_queue(vhost: VHost, row: QueueRow, state: LaneState) -> None:
    spec = QueueSpec(row.name, True, False, row.auto_delete, _table(row.arguments))
    vhost.restore_queue(spec, row.id, state)


def _restore_binding(vhost: VHost, row: BindingRow) -> None:
    destination: Destination
    destination = (vhost.queues if row.destination_kind == "queue" else vhost.exchanges)[row.destination]
    arguments = _table(row.arguments)
    source = vhost.exchanges[row.source]
    vhost.bindings.add(source.binding(destination, row.routing_key, arguments), arguments)


def _sweep(stores: Stores, found: Definitions, lanes: dict[int, dict[int, LaneState]]) -> None:
    stores.messages.delete_queues(found.tombstones)
    strangers = lanes.keys() - {queue.id for queue in found.queues} - found.tombstones
    if strangers:
        log.warning("the message store holds queues that no definition names; kept as they are: %s", sorted(strangers))


def _table(encoded: bytes) -> Table:
    return decode_table(encoded, 0)[0]
