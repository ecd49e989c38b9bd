"""Columns of queues in the HTTP API: the shared ones, some of them only for queues of a type, and statistics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from broker.admin.views.columns import ABSENT, Column, Columns
from broker.admin.views.queue_view import DEPTH, TOTALS, queue_columns
from broker.entities.arguments.personality import Series
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, QueueType
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.management.rows import queue_rows_of_4
from broker.management.rows.connection_rows import connection_details
from broker.management.rows.stream_rows import committed_offsets
from broker.management.statistics.history_query import HistoryQuery, moment
from broker.management.statistics.sampler import QUEUE
from broker.session.connection import Connection

queue_order: Callable[[Queue], tuple[str, str]] = attrgetter("vhost_name", "name")
"""The sort key of lists of queues."""
queue_name: Callable[[Queue], str] = attrgetter("name")
"""The text that lists of queues are filtered by."""

BRIEF = ("name", "vhost", "type", "node", "durable", "auto_delete", "exclusive", "arguments")
LENGTHS = tuple(f"{name}_details" for name in TOTALS)


class QueueRows(NamedTuple):
    """A kind of rows of queues: a series of RabbitMQ has its columns, and a single row others than a list.

    `single` and `listed`: a detailed list.
    """

    series: Series
    single: bool = False
    listed: bool = False


def queue_rows(node: str, query: HistoryQuery, rows: QueueRows) -> Columns[Queue]:
    """The columns of queues, with statistics."""
    history, ages = query
    shared = _shared(node)
    of_types: dict[str, Column[Queue]] = {
        "head_message_timestamp": _of_type(shared["head_message_timestamp"], CLASSIC),
        "exclusive_consumer_tag": _of_type(shared["exclusive_consumer_tag"], CLASSIC),
        "single_active_consumer_tag": _of_type(_single_active_consumer, CLASSIC),
        "single_active_consumer_ctag": _of_type(_single_active_consumer, QUORUM),
        "recoverable_slaves": _of_type(lambda queue: None, CLASSIC),
        "leader": _of_type(shared["leader"], QUORUM),
        "members": partial(_if_any, shared["members"]),
        "online": partial(_if_any, shared["online"]),
        "open_files": _of_type(lambda queue: {node: 0}, QUORUM),
        "readers": _of_type(lambda queue: {node: len(queue.consumers)}, STREAM),
        "committed_offsets": partial(_if_any, committed_offsets),
    }

    def lengths(queue: Queue) -> list[Any]:
        found = history.queue_lengths(queue, ages)
        return [found.get(name, ABSENT) for name in LENGTHS]

    table: dict[str, Column[Queue]] = {
        **shared,
        **of_types,
        "messages_dlx": lambda queue: len(queue.dead_letters) if isinstance(queue, QuorumQueue) else ABSENT,
        **queue_rows_of_4.LIMIT,
        "message_bytes_dlx": lambda queue: queue.dead_letters.bytes if isinstance(queue, QuorumQueue) else ABSENT,
        "idle_since": lambda queue: moment(history.queue_idle_since(queue)),
        "message_stats": lambda queue: history.queue_stats(queue, ages) or ABSENT,
    }
    depth = DEPTH
    if rows.series >= (4, 0):
        depth = queue_rows_of_4.depth_columns()
        if rows.single:
            table = queue_rows_of_4.single_columns(shared, table, _single_active_consumer, listed=rows.listed)
        else:
            table = queue_rows_of_4.list_columns(shared, table, _single_active_consumer)
    return Columns(table, {**depth, LENGTHS: lengths}, partial(query.statistic, QUEUE, attrgetter("counters")))


def queue_rows_without_statistics(node: str, rows: QueueRows, *, totals: bool = False) -> Columns[Queue]:
    """The few columns that are left with `disable_stats`; with `totals` messages are among them."""
    shared = _shared(node)
    if rows.series >= (4, 0):
        if totals:
            return Columns(queue_rows_of_4.columns_of_totals(shared, TOTALS, single=rows.single))
        return Columns(queue_rows_of_4.brief_columns(shared))
    return Columns(
        {
            **{name: shared[name] for name in BRIEF},
            "policy": lambda queue: shared["policy"](queue) or ABSENT,
            "state": shared["state"] if totals else lambda queue: "live",
            **(TOTALS if totals else {}),
        }
    )


def _shared(node: str) -> dict[str, Column[Queue]]:
    return {**queue_columns(node), "node": lambda queue: node}


def _of_type(column: Column[Queue], type_: QueueType) -> Column[Queue]:
    """A column that only queues of a type have."""
    return lambda queue: column(queue) if queue.type is type_ else ABSENT


def _if_any(column: Column[Queue], queue: Queue) -> Any:
    """A list that is left out if it is empty."""
    return column(queue) or ABSENT


def _single_active_consumer(queue: Queue) -> str | None:
    if not queue.arguments.single_active_consumer:
        return None
    return next((consumer.tag for consumer in queue.consumers.members if queue.consumers.active(consumer)), None)


def owner(queue: Queue) -> dict[str, Any]:
    """The connection that a queue is exclusive to, which lists do not show; nothing for other queues."""
    return {"owner_pid_details": connection_details(queue.owner)} if isinstance(queue.owner, Connection) else {}
