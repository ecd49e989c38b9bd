"""From two files to a running broker, before the first connection.

SQLite is the truth about which queues exist, LMDB about their messages. Neither may be taken for another
broker's: both carry the same identity. Messages are removed only for queues whose deletion left a tombstone,
so a definitions file that was lost or swapped costs no messages: the start is refused.
"""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker.admin.apply_changes import take_effect
from broker.admin.definitions import unfinished_import
from broker.admin.kinds.policy_check import checked
from broker.admin.protocol import AdministrationError
from broker.config import Config, DefaultsSettings
from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.exchanges.event_exchange import EventSettings
from broker.entities.exchanges.exchange import Binding, Destination
from broker.entities.node.broker import Broker, BrokerSettings, Pace
from broker.entities.node.parameters import CLUSTER_ID
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import QueueSpec
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.scheduling.clock import Clock, SteadyClock
from broker.entities.vhosts.vhost import VHost
from broker.server import directory_lock
from broker.server.definition_writer import DefinitionLog
from broker.session.login.passwords import SHA256, hash_password
from broker.wire.field_tables import Table, decode_table, encode_table
from storage import restored_files
from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE, LaneState
from storage.definitions import features
from storage.definitions.change_count import BACKUP, HIGH_WATER
from storage.definitions.definition_rows import (
    BindingRow,
    Change,
    Definitions,
    ExchangeRow,
    PermissionRow,
    PolicyRow,
    Put,
    QueueRow,
    SetMetadata,
    UserRow,
    VhostRow,
)
from storage.definitions.definition_store import DefinitionsFull, DefinitionStore
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from storage.messages.store_origin import StoreOrigin
from storage.space import ballast
from storage.storage_errors import StoreIncompatible, StoreIncomplete

log = logging.getLogger("leveret.recovery")

DEFINITIONS_FILE = "definitions.sqlite"
MESSAGES_DIRECTORY = "messages"
STORE_FILES = (
    DEFINITIONS_FILE,
    f"{DEFINITIONS_FILE}-wal",
    f"{DEFINITIONS_FILE}-shm",
    HIGH_WATER,
    MESSAGES_DIRECTORY,
)
"""The files of both stores in a data directory."""
REPLACED = (*STORE_FILES, "events")
"""The files that a restore replaces: the event log, where it is in the data directory, tells of the old messages."""
_COMPLETE = "message_store"
_ORPHANS = "orphans"
"""Metadata: ids of queues whose messages no definition names, as a JSON list, that were accepted as lost."""
_NO_ARGUMENTS = encode_table({})


class Stores(NamedTuple):
    """Both open stores of a data directory, and the lock that keeps others out."""

    definitions: DefinitionStore
    messages: MessageStore
    lock: int


def open_stores(
    directory: Path,
    lock: int | None = None,
    journal_bytes: int = 0,
    *,
    recorded: bool = False,
    accept_loss: bool = False,
    known_boot: int = 0,
) -> Stores:
    """Open both stores, making them where nothing is yet. Raises StoreError, having touched nothing it cannot use.

    `lock`: of the directory, where the caller holds it already. `journal_bytes`: the size of the journal, 0: none.
    `recorded`: events of this boot are logged; `known_boot`: the last boot that the event log tells of. Raises
    StoreIncomplete where something is missing that was on disk, unless that is accepted.
    """
    lock = directory_lock.lock(directory) if lock is None else lock
    restored_files.finish(directory, REPLACED)
    fresh = not lmdb_environment.exists(directory / MESSAGES_DIRECTORY)
    origin = lmdb_environment.origin_of(directory / MESSAGES_DIRECTORY)
    open_definitions = partial(
        DefinitionStore.open, directory / DEFINITIONS_FILE, create=fresh, accept_loss=accept_loss
    )
    with ExitStack() as undo:
        definitions = undo.enter_context(_with_ballast(directory, open_definitions))
        metadata = definitions.metadata()
        _refuse_half_a_backup(directory, origin, metadata.get(BACKUP, b""))
        complete = _COMPLETE in metadata
        messages = undo.enter_context(
            MessageStore.open(
                directory / MESSAGES_DIRECTORY,
                store_uuid=definitions.uuid,
                create=not complete,
                journal_bytes=journal_bytes,
                recorded=recorded,
                accept_loss=accept_loss,
                known_boot=known_boot,
                queue_ids=definitions.load().queue_id_sequence if origin.pending else 0,
            )
        )
        marks = [] if complete else [SetMetadata(_COMPLETE, b"created")]
        if journal_bytes and not features.used(features.CHAINED_JOURNAL, metadata):
            marks.append(features.uses(features.CHAINED_JOURNAL))
        if metadata.get(BACKUP):
            marks.append(SetMetadata(BACKUP, b""))
        if marks:
            definitions.commit(marks)
        if metadata.get(BACKUP):
            messages.forget_backup()
        definitions.lift_queue_id(messages.highest_queue_id())
        undo.pop_all()
        return Stores(definitions, messages, lock)


def _with_ballast(directory: Path, open_definitions: Callable[[], DefinitionStore]) -> DefinitionStore:
    """On a full disk with what the ballast gives: consumers can make room only in a running broker."""
    try:
        return open_definitions()
    except DefinitionsFull:
        if not ballast.release(directory / MESSAGES_DIRECTORY):
            raise
        return open_definitions()


def _refuse_half_a_backup(directory: Path, origin: StoreOrigin, backup: bytes) -> None:
    """Raise StoreIncompatible where one file is of a backup that was not opened yet, and the other is not.

    A first start on a backup that ended half-way has opened the messages: they know which backup they are of.
    """
    if backup == (origin.backup if origin.pending else b"") or (backup and backup == origin.backup):
        return
    raise StoreIncompatible(
        f"{directory / MESSAGES_DIRECTORY} and {directory / DEFINITIONS_FILE} are not of the same backup, or "
        f"{DEFINITIONS_FILE}-wal is missing: put all files of one there, by `leveret restore`, or bring that back"
    )


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
    lanes = _with_offsets(stores.messages.lanes(), found, stores.messages.origin)
    limits = config.limits
    highest_queue_id = max(found.queue_id_sequence, stores.messages.highest_queue_id())
    definition_log = DefinitionLog(stores.definitions, highest_queue_id, pace.wake, recorder)
    broker = Broker(
        BrokerSettings(
            MemoryWindow(limits.queue_window_messages, limits.queue_window_bytes),
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
    _refuse_orphans(stores, found, lanes, accept_loss=config.store.accept_loss)
    bring_back(broker, found, lanes)
    stores.messages.delete_queues(found.tombstones)
    return Recovered(broker, definition_log, found.tombstones, found.metadata.get(unfinished_import.NAME, b""))


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


def _with_offsets(
    lanes: dict[int, dict[int, LaneState]], found: Definitions, origin: StoreOrigin
) -> dict[int, dict[int, LaneState]]:
    """The lanes, of which streams from a restored backup go on above all offsets that were given out since."""
    if origin.timeline:
        for queue in found.queues:
            offset = origin.first_offset(queue.id)
            if offset and _is_stream(queue):
                state = lanes.setdefault(queue.id, {}).setdefault(0, LaneState())
                if state.delivered_up_to >> COUNTER_BITS == 0:
                    state.delivered_up_to = max(state.delivered_up_to, offset)
    return lanes


def _is_stream(queue: QueueRow) -> bool:
    given = _table(queue.arguments).get("x-queue-type")
    return given is not None and given.value == b"stream"


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


def default_definitions(defaults: DefaultsSettings, *, default_user: bool) -> list[Change]:
    """What a new data directory begins with: the default virtual host and, if wanted, its user."""
    changes: list[Change] = [Put(VhostRow(defaults.vhost, "Default virtual host"))]
    if default_user:
        hashed = hash_password(defaults.password.encode())
        changes.append(Put(UserRow(defaults.user, hashed, SHA256, ("administrator",))))
        changes.append(Put(PermissionRow(defaults.user, defaults.vhost, ".*", ".*", ".*")))
    return changes


def _cluster_id(uuid: bytes) -> str:
    """What the broker is known by, in the form of RabbitMQ's."""
    return f"rabbitmq-cluster-id-{urlsafe_b64encode(uuid).decode().rstrip('=')}"


def settings_of(found: Definitions) -> Iterator[Change]:
    """Yield the changes that restore everything but exchanges, queues and bindings, in the order of references."""
    policies = filter(_understood, found.policies)
    before = (
        found.vhosts,
        found.users,
        found.permissions,
        found.topic_permissions,
        found.vhost_limits,
        found.user_limits,
    )
    for rows in (*before, policies, found.parameters, found.global_parameters):
        yield from map(Put, rows)


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


def _refuse_orphans(
    stores: Stores, found: Definitions, lanes: Mapping[int, Mapping[int, LaneState]], *, accept_loss: bool
) -> None:
    """Raise StoreIncomplete where messages are of queues that no definition names: the definitions are older.

    Where that is accepted they stay as they are, and are named no more.
    """
    named = {queue.id for queue in found.queues} | {exchange.queue_id for exchange in found.exchanges}
    known = {int(number) for number in json.loads(found.metadata.get(_ORPHANS, b"[]"))}
    orphans = {
        queue_id: sum(state.messages for state in states.values())
        for queue_id, states in lanes.items()
        if queue_id < TRANSIENT_QUEUE and queue_id not in named | found.tombstones | known
    }
    if not any(orphans.values()):
        return
    what = (
        f"{stores.definitions.path} is of an earlier moment than the messages: it does not name "
        f"{len(orphans)} queues, which hold {sum(orphans.values())} messages (ids {sorted(orphans)[:10]})"
    )
    if not accept_loss:
        raise StoreIncomplete(
            f"{what}: bring the file back as the last broker left it, or do without them by `leveret recover "
            "--accept-loss` or store.accept_loss = true"
        )
    log.error("%s; the loss is accepted", what)
    stores.definitions.commit([SetMetadata(_ORPHANS, json.dumps(sorted(known | orphans.keys())).encode())])


def _table(encoded: bytes) -> Table:
    return {} if encoded == _NO_ARGUMENTS else decode_table(encoded, 0)[0]
