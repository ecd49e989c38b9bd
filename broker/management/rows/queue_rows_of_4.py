"""Columns of queues in the HTTP API of RabbitMQ 4, where they differ from those of 3.13.

Each type has its own columns. Lists leave out what is null, a single row has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.admin.views.columns import ABSENT, Column, Joint
from broker.admin.views.queue_view import DEPTH
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, QueueType
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.entities.queues.streams.stream_queue import Stream
from broker.management.rows.erlang_processes import COLLECTION, REDUCTIONS, always

Table = Mapping[str, Column[Queue]]
UNLIMITED, NO_LIMIT = "unlimited", -1
"""A delivery limit of none: in full rows, and in those without statistics."""


def _delivery_limit(queue: Queue) -> Any:
    """Return the limit in force on returns to a quorum queue, since RabbitMQ 4.0: clients take its absence for none."""
    if not isinstance(queue, QuorumQueue) or not queue.rules.limit_shown:
        return ABSENT
    return UNLIMITED if queue.rules.limit is None else queue.rules.limit


LIMIT: Table = {"delivery_limit": _delivery_limit}
INTERNAL: Table = {"internal": always(False), "internal_owner": always(False)}
GONE = ("recoverable_slaves", "single_active_consumer_ctag")
OF_SINGLE_ROWS = ("exclusive_consumer_tag", "head_message_timestamp", "idle_since")
_OF_CLASSIC = frozenset({"messages_ready_ram", "messages_unacknowledged_ram"})
_NOT_OF_STREAMS = _OF_CLASSIC | {
    *("messages_persistent", "messages_ram", "message_bytes", "message_bytes_ready"),
    *("message_bytes_unacknowledged", "message_bytes_persistent", "message_bytes_ram"),
}
_PAGED_OUT = frozenset({"messages_paged_out", "message_bytes_paged_out"})


def of_type(column: Column[Queue], *types: QueueType) -> Column[Queue]:
    """Return a column that only queues of some types have."""
    return lambda queue: column(queue) if queue.type in types else ABSENT


def list_columns(shared: Table, table: Table, active_tag: Column[Queue]) -> dict[str, Column[Queue]]:
    """Return the columns of lists. `shared` and `table` are 3.13's; `active_tag` is of the single active consumer."""
    left_out = (*GONE, *OF_SINGLE_ROWS)
    return {
        **{name: column for name, column in table.items() if name not in left_out},
        **_changed(shared, table),
        **{name: _or_absent(table[name]) for name in ("policy", "operator_policy")},
        "single_active_consumer_tag": of_type(_or_absent(_active_tag(active_tag)), CLASSIC, QUORUM),
    }


def single_columns(shared: Table, table: Table, active_tag: Column[Queue], *, listed: bool) -> dict[str, Column[Queue]]:
    """Return the columns of a single row, or of a detailed list, as `list_columns` does."""
    collected = (CLASSIC, QUORUM) if listed else (CLASSIC, QUORUM, STREAM)
    return {
        **{name: column for name, column in table.items() if name not in GONE},
        **_changed(shared, table),
        "idle_since": of_type(table["idle_since"], CLASSIC),
        "single_active_consumer_tag": of_type(_active_tag(active_tag), CLASSIC, QUORUM),
        **{name: of_type(column, *collected) for name, column in COLLECTION.items()},
    }


def _changed(shared: Table, table: Table) -> dict[str, Column[Queue]]:
    return {
        **INTERNAL,
        "memory": lambda queue: queue.ready_messages.in_memory.bytes + queue.out.bytes,
        **REDUCTIONS,
        "message_stats": lambda queue: _without_disk(table["message_stats"](queue)),
        "leader": shared["leader"],
        "storage_version": of_type(always(2), CLASSIC),
        "first_timestamp": of_type(always(0), STREAM),
        "segments": of_type(_segments, STREAM),
        "messages_ready_returned": of_type(lambda queue: _quorum(queue).returned_messages, QUORUM),
        "publishers": of_type(always(0), QUORUM),
        "delayed_retry": of_type(lambda queue: _quorum(queue).delayed_retry, QUORUM),
        "messages_delayed": of_type(lambda queue: _quorum(queue).delayed_messages, QUORUM),
        "messages_by_priority": of_type(lambda queue: _quorum(queue).ready_by_priority, QUORUM),
        "messages_active_priorities": of_type(lambda queue: len(_quorum(queue).ready_by_priority), QUORUM),
    }


def _without_disk(stats: Any) -> Any:
    if stats is ABSENT:
        return stats
    return {name: value for name, value in stats.items() if not name.startswith("disk_")} or ABSENT


def _or_absent(column: Column[Queue]) -> Column[Queue]:
    return lambda queue: ABSENT if (value := column(queue)) is None else value


def _active_tag(active_tag: Column[Queue]) -> Column[Queue]:
    """Return the tag of the single active consumer; of a quorum queue without one that of the only consumer."""

    def tag(queue: Queue) -> Any:
        found, consumers = active_tag(queue), queue.consumers.members
        only = queue.type is QUORUM and found is None and len(consumers) == 1
        return next(iter(consumers)).tag if only else found

    return tag


def _segments(queue: Queue) -> int:
    return len(queue.log.segments) if isinstance(queue, Stream) else 0


def _quorum(queue: Queue) -> QuorumQueue:
    assert isinstance(queue, QuorumQueue), "a column of quorum queues"
    return queue


def depth_columns() -> Joint[Queue]:
    """Return the columns of `Depth` by type: messages are not paged out, and streams count no bytes."""
    ((names, values),) = DEPTH.items()
    kept = [(place, name) for place, name in enumerate(names) if name not in _PAGED_OUT]

    def of_queue(queue: Queue) -> Sequence[Any]:
        found = values(queue)
        left_out = _NOT_OF_STREAMS if queue.type is STREAM else _OF_CLASSIC if queue.type is QUORUM else ()
        return [ABSENT if name in left_out else found[place] for place, name in kept]

    return {tuple(name for _, name in kept): of_queue}


# Without statistics


def brief_columns(shared: Table) -> dict[str, Column[Queue]]:
    """Return the columns that are left with `disable_stats`."""
    return {
        **{name: shared[name] for name in _BRIEF},
        **{name: shared[name] for name in _POLICIES},
        "delivery_limit": _brief_limit,
        "leader": shared["leader"],
        "members": lambda queue: shared["members"](queue) or ABSENT,
        "online": lambda queue: shared["online"](queue) or ABSENT,
        **INTERNAL,
    }


def _brief_limit(queue: Queue) -> Any:
    limit = _delivery_limit(queue)
    return NO_LIMIT if limit == UNLIMITED else limit


def columns_of_totals(shared: Table, totals: Table, *, single: bool) -> dict[str, Column[Queue]]:
    """Return the columns that are left with `disable_stats` and `enable_queue_totals`, by type; streams have few."""
    brief = brief_columns(shared)
    kept = {name: column for name, column in brief.items() if single or name not in INTERNAL}
    absent = always(None)
    return {
        **kept,
        **{name: of_type(column, CLASSIC, QUORUM) for name, column in totals.items()},
        **{name: of_type(brief[name], QUORUM) for name in (*_POLICIES, "leader", "members")},
        "node": of_type(brief["node"], CLASSIC, QUORUM),
        "policy": _or_absent(brief["policy"]),
        "exclusive": lambda queue: shared["exclusive"](queue) if queue.type is CLASSIC else None,
        "online": lambda queue: shared["online"](queue) or None,
        "totals": of_type(absent, STREAM),
        "type_specific": of_type(absent, STREAM),
    }


_POLICIES = ("effective_policy_definition", "operator_policy", "policy")
_BRIEF = ("arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost")
