"""Recovery at the start: makes a broker from both stores, before the first connection.

SQLite decides which queues exist, LMDB has their messages. Both carry the same identity, so that one is not combined
with another broker's. Messages are removed only for queues whose deletion left a tombstone,
so a lost or wrong definitions file costs no messages: the start is refused.
"""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker.admin.apply_changes import take_effect
from broker.admin.definitions import unfinished_import
from broker.admin.kinds.policy_check import checked
from broker.admin.protocol import AdministrationError
from broker.config import DEFAULTS_OF, Config
from broker.entities.arguments.personality import DEFAULT
from broker.entities.arguments.policy_keys import RULES_OF_ANY
from broker.entities.exchanges.event_exchange import EventSettings
from broker.entities.exchanges.exchange import Binding, Destination
from broker.entities.node.broker import Broker, BrokerSettings, Pace
from broker.entities.node.parameters import CLUSTER_ID
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import QueueSpec
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.streams.stream_queue import CommittedOffset, Stream
from broker.entities.rehearsal.rehearsal_watch import Finding, RehearsalWatch
from broker.entities.scheduling.clock import Clock, SteadyClock
from broker.entities.vhosts.vhost import VHost
from broker.server import directory_lock
from broker.server.definition_writer import DefinitionLog
from broker.server.durable_rows import DurableRows
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
from storage.events.event_log_recovery import highest_boot
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from storage.messages.store_origin import StoreOrigin
from storage.ship.standby.follow_note import NAME as STANDBY_NOTE
from storage.ship.standby.follow_note import refuse_following
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
REPLACED = (*STORE_FILES, STANDBY_NOTE, "events")
"""The files that a restore replaces; also the event log, if it is in the data directory: it has the old messages."""
_COMPLETE = "message_store"
_ORPHANS = "orphans"
"""Metadata: a JSON list of queue ids that no definition names, and whose messages were accepted as lost."""
_NO_ARGUMENTS = encode_table({})


class Stores(NamedTuple):
    """Both open stores of a data directory, and the descriptor of its lock."""

    definitions: DefinitionStore
    messages: MessageStore
    lock: int


def logged_boot(config: Config) -> int:
    """Return the last boot in the event log that the settings name; 0 for none. Raises OSError."""
    return highest_boot(config.events_directory, config.identity.shown_cluster_name)


def open_stores(
    directory: Path,
    lock: int | None = None,
    journal_bytes: int = 0,
    *,
    recorded: bool = False,
    accept_loss: bool = False,
    known_boot: int = 0,
) -> Stores:
    """Open both stores, or create them in a new directory. Raises StoreError, and leaves unusable files unchanged.

    `lock`: the directory's lock if the caller has it. `journal_bytes`: size of the journal, 0: none.
    `recorded`: events of this boot are logged; `known_boot`: the last boot in the event log. Raises
    StoreIncomplete if data is missing that was on disk, unless `accept_loss`, and Following for a standby's directory.
    """
    lock = directory_lock.lock(directory) if lock is None else lock
    restored_files.finish(directory, REPLACED)  # a restore that was cut short between two renames
    refuse_following(directory)
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
        # Marked only now: a start that was cut short before creates the message store once more.
        marks = [] if complete else [SetMetadata(_COMPLETE, b"created")]
        if journal_bytes and not features.used(features.CHAINED_JOURNAL, metadata):
            marks.append(features.uses(features.CHAINED_JOURNAL))
        if metadata.get(BACKUP):
            marks.append(SetMetadata(BACKUP, b""))
        if marks:
            definitions.commit(marks)
        if metadata.get(BACKUP):  # after the definitions' commit: `_refuse_half_a_backup` relies on this order
            messages.forget_backup()
        definitions.lift_queue_id(messages.highest_queue_id())
        assert messages.boot > known_boot, f"boot {messages.boot} begins behind boot {known_boot} of the event log"
        undo.pop_all()
        return Stores(definitions, messages, lock)


def _with_ballast(directory: Path, open_definitions: Callable[[], DefinitionStore]) -> DefinitionStore:
    """Open the definitions, on a full disk with the ballast's space: consumers free space only in a running broker."""
    try:
        return open_definitions()
    except DefinitionsFull:
        if not ballast.release(directory / MESSAGES_DIRECTORY):
            raise
        return open_definitions()


def _refuse_half_a_backup(directory: Path, origin: StoreOrigin, backup: bytes) -> None:
    """Raise StoreIncompatible if one store is of a backup that was never opened, and the other is not of the same.

    After a first start on a backup that was cut short, only the messages were opened: they name their backup still.
    """
    if backup == (origin.backup if origin.pending else b"") or (backup and backup == origin.backup):
        return
    raise StoreIncompatible(
        f"{directory / MESSAGES_DIRECTORY} and {directory / DEFINITIONS_FILE} are not of the same backup, or "
        f"{DEFINITIONS_FILE}-wal is missing: put all files of one there, by `leveret restore`, or bring that back"
    )


class Recovered(NamedTuple):
    """A broker with all durable entities, the writer of its definitions, the deleted queues whose records are still in
    the store, and an import of definitions that a crash has cut short, if any.
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
    """Recover all durable entities. New stores get the default virtual host and, with `default_user`, its user."""
    found = _with_defaults(config, stores, default_user=default_user)
    lanes = _with_offsets(stores.messages.lanes(), found, stores.messages.origin)
    recovered = _empty(config, stores, found, pace, recorder, clock or SteadyClock())
    # Refused before anything is deleted: an older definitions file must not cost messages.
    _refuse_orphans(stores, found, lanes, accept_loss=config.store.accept_loss)
    bring_back(recovered.broker, found, lanes)
    stores.messages.delete_queues(found.tombstones)
    return recovered


def recover_for_reading(
    config: Config, stores: Stores, lanes: Mapping[int, Mapping[int, LaneState]], pace: Pace
) -> Recovered:
    """Recover all durable entities with the message counts of `lanes`, and write nothing."""
    found = stores.definitions.load()
    recovered = _empty(config, stores, found, pace, None, SteadyClock())
    bring_back(recovered.broker, found, lanes)
    return recovered


def _empty(
    config: Config, stores: Stores, found: Definitions, pace: Pace, recorder: Recorder | None, clock: Clock
) -> Recovered:
    """Return a broker without entities yet."""
    limits = config.limits
    highest_queue_id = max(found.queue_id_sequence, stores.messages.highest_queue_id())
    definition_log = DefinitionLog(stores.definitions, highest_queue_id, pace.wake, recorder)
    broker = Broker(
        BrokerSettings(
            MemoryWindow(limits.queue_window_messages, limits.queue_window_bytes),
            config.store.batch_bytes_max,
            config.store.lazy_bytes_max,
            config.debug.check_invariants,
            config.personality,
            config.defaults.queue_type,
        ),
        clock,
        stores.messages,
        DurableRows(definition_log),
        stores.messages.boot,
        pace,
        recorder=recorder,
        disk_free=stores.messages.space.room_bytes,
        events=event_settings(config),
        watch=new_watch(config, clock) if config.rehearsal.watch else None,
    )
    broker.parameters.everywhere.setdefault(CLUSTER_ID, _cluster_id(stores.definitions.uuid))
    return Recovered(broker, definition_log, found.tombstones, found.metadata.get(unfinished_import.NAME, b""))


def new_watch(config: Config, clock: Clock, tell: Callable[[Finding], None] | None = None) -> RehearsalWatch:
    """Return the watch of the settings; `tell`: see there."""
    later, limit = config.rehearsed, config.limits.message_bytes_max
    largest = DEFAULTS_OF[later[-1].series_name]["limits"]["message_bytes_max"] if later else limit
    return RehearsalWatch(config.personality, later, clock.now, largest if largest < limit else 0, tell)


def bring_back(broker: Broker, found: Definitions, lanes: Mapping[int, Mapping[int, LaneState]]) -> None:
    """Create the entities of the definitions store in an empty broker, with the message counts of `lanes`."""
    assert not broker.vhosts, "only an empty broker can be filled"
    for change in settings_of(found):
        take_effect(broker, change)
    for exchange in found.exchanges:
        _restore_exchange(broker.vhosts[exchange.vhost], exchange, lanes.get(exchange.queue_id, {}))
    for queue in found.queues:
        _restore_queue(broker.vhosts[queue.vhost], queue, lanes.get(queue.id, {}))
    for binding in found.bindings:
        _restore_binding(broker.vhosts[binding.vhost], binding)
    _restore_stream_offsets(broker, found)


def _with_offsets(
    lanes: dict[int, dict[int, LaneState]], found: Definitions, origin: StoreOrigin
) -> dict[int, dict[int, LaneState]]:
    """Return the lanes, with streams of a restored backup set to go on above all offsets given out since the backup."""
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
    """Return the settings of the event exchange; None if it is off."""
    wanted, vhost = config.event_exchange.enabled, config.event_exchange.vhost or config.defaults.vhost
    return EventSettings(vhost, config.identity.shown_node_name) if wanted else None


def _with_defaults(config: Config, stores: Stores, *, default_user: bool) -> Definitions:
    found = stores.definitions.load()
    if found.vhosts or found.users:
        changes = _queue_types(config, found.vhosts)
    else:
        changes = default_definitions(config, default_user=default_user)
    if not changes:
        return found
    stores.definitions.commit(changes)
    return stores.definitions.load()


def _queue_types(config: Config, vhosts: Iterable[VhostRow]) -> list[Change]:
    """Return the virtual hosts that have no default queue type, with the node's, where each has one."""
    if not config.personality.vhost_types:
        return []
    queue_type = config.defaults.queue_type
    return [Put(row._replace(default_queue_type=queue_type)) for row in vhosts if not row.default_queue_type]


def default_definitions(config: Config, *, default_user: bool) -> list[Change]:
    """Return the definitions of a new data directory: the default virtual host and, with `default_user`, its user."""
    defaults = config.defaults
    vhost = VhostRow(defaults.vhost, "Default virtual host")
    changes = [Put(vhost), *_queue_types(config, (vhost,))]
    if default_user:
        hashed = hash_password(defaults.password.encode())
        changes.append(Put(UserRow(defaults.user, hashed, SHA256, ("administrator",))))
        changes.append(Put(PermissionRow(defaults.user, defaults.vhost, ".*", ".*", ".*")))
    return changes


def _cluster_id(uuid: bytes) -> str:
    """Return the cluster id in RabbitMQ's form."""
    return f"rabbitmq-cluster-id-{urlsafe_b64encode(uuid).decode().rstrip('=')}"


def settings_of(found: Definitions) -> Iterator[Change]:
    """Yield the changes that create all stored definitions but exchanges, queues and bindings."""
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


_OF_ANY_SERIES = DEFAULT._replace(policy_rules=RULES_OF_ANY)


def _understood(row: PolicyRow) -> bool:
    """Return whether a policy is valid. One that an earlier version or Python accepted, and this one does not, is kept
    in the store and not applied."""
    try:
        given = row.name, row.pattern, row.apply_to, json.loads(row.definition), row.priority
        checked(*given, _OF_ANY_SERIES, operator=row.operator)
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
        declared_by=row.declared_by,
        queue_id=row.queue_id,
        states=states,
    )


def _restore_queue(vhost: VHost, row: QueueRow, states: Mapping[int, LaneState]) -> None:
    spec = QueueSpec(row.name, True, False, row.auto_delete, _table(row.arguments), row.declared_by)
    vhost.restore_queue(spec, row.id, states)


def _restore_binding(vhost: VHost, row: BindingRow) -> None:
    destination: Destination
    destination = (vhost.queues if row.destination_kind == "queue" else vhost.exchanges)[row.destination]
    # The stored bytes of the arguments are the binding's identity: to sort and encode them again would take longer
    # than all other steps, and there may be hundreds of thousands of bindings.
    binding = Binding(vhost.exchanges[row.source], destination, row.routing_key, row.arguments)
    vhost.bindings.add(binding, _table(row.arguments))


def _restore_stream_offsets(broker: Broker, found: Definitions) -> None:
    """Tell each stream which offsets were committed in it."""
    places = {queue.id: queue for queue in found.queues} if found.stream_offsets else {}
    for row in found.stream_offsets:
        place = places[row.queue_id]
        stream = broker.vhosts[place.vhost].queues[place.name]
        if isinstance(stream, Stream):
            stream.committed[row.group] = CommittedOffset(row.offset, row.committed_at)


def _refuse_orphans(
    stores: Stores, found: Definitions, lanes: Mapping[int, Mapping[int, LaneState]], *, accept_loss: bool
) -> None:
    """Raise StoreIncomplete if messages are of queues that no definition names: the definitions are older.

    With `accept_loss` the messages stay in the store, and later starts ignore them.
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
