"""A stopped broker's data directory: whose the messages in its store are, and what its definitions say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from leveret_spark.amqp.headers import headers_to_json
from pipeline.stopped_store.store_rows import Owner, Row, readable, rows
from pipeline.stopped_store.stored_values import arguments_of, plain
from storage.batch import TRANSIENT_QUEUE
from storage.definitions.definition_rows import Definitions, QueueRow
from storage.lock_file import BROKER
from storage.messages import lmdb_environment
from storage.messages.keys import POSITION_END
from storage.offline.offline_reader import LaneContents, Range, StoppedStore, definitions_of
from storage.storage_errors import StoreIncompatible, StoreLocked

DEFINITIONS_FILE = "definitions.sqlite"
MESSAGES_DIRECTORY = "messages"
DELAY = "delay"


class DataDirectory:
    """The data directory of a broker that does not run, or a backup of one. Made by `opened`."""

    def __init__(self, definitions: Definitions, messages: StoppedStore) -> None:
        self.definitions = definitions
        self.messages = messages

    def owners(self) -> dict[int, Owner]:
        """Owners of the ids in the message store."""
        queues = {row.id: Owner(row.vhost, row.name, type_of(row)) for row in self.definitions.queues}
        delays = {row.queue_id: Owner(row.vhost, row.name, DELAY) for row in self.definitions.exchanges if row.queue_id}
        return queues | delays


@contextmanager
def opened(directory: Path) -> Iterator[DataDirectory]:
    """Read a data directory, in which nothing is changed; no broker can start on it meanwhile.

    Raises StoreLocked while one runs, and StoreError when a store cannot be read at all.
    """
    if not (directory / DEFINITIONS_FILE).is_file():
        remedy = "name another one with --data-dir or LEVERET_DATA_DIR"
        raise StoreIncompatible(f"no broker has run on the data directory {directory.absolute()} yet: {remedy}")
    try:
        held = lmdb_environment.hold(directory / BROKER)
    except StoreLocked:
        raise StoreLocked(
            f"a broker runs on {directory.absolute()}: stop it, or look into a copy (--copy, or a backup)"
        ) from None
    try:
        definitions = definitions_of(directory / DEFINITIONS_FILE)
        with StoppedStore(directory / MESSAGES_DIRECTORY) as messages:
            yield DataDirectory(definitions, messages)
    finally:
        if held is not None:
            os.close(held)


def type_of(queue: QueueRow) -> str:
    """Classic, quorum or stream."""
    return str(arguments_of(queue.arguments).get("x-queue-type") or "classic")


def tables(directory: DataDirectory, vhost: str | None, queue: str | None) -> dict[str, list[dict[str, Any]]]:
    """Tables of queues with their contents, exchanges and bindings, of a virtual host and a queue; None: of all."""
    vhost, queue = vhost and plain(vhost), queue and plain(queue)
    definitions = directory.definitions
    found = {
        "queues": [row for row in queue_rows(directory) if queue in (None, row["queue"])],
        "exchanges": exchange_rows(definitions) if queue is None else [],
        "bindings": [row for row in binding_rows(definitions) if queue is None or _leads_to(row, queue)],
    }
    return {name: [row for row in rows if vhost in (None, row["vhost"])] for name, rows in found.items()}


def _leads_to(binding: dict[str, Any], queue: str) -> bool:
    return binding["destination_type"] == "queue" and bool(binding["destination"] == queue)


def exchange_rows(found: Definitions) -> list[dict[str, Any]]:
    """Rows of the durable exchanges that clients have declared."""
    return [
        {
            "vhost": plain(row.vhost),
            "exchange": plain(row.name),
            "type": plain(row.type),
            "auto_delete": bool(row.auto_delete),
            "internal": bool(row.internal),
            "arguments": headers_to_json(arguments_of(row.arguments)),
        }
        for row in found.exchanges
    ]


def binding_rows(found: Definitions) -> list[dict[str, Any]]:
    """Rows of the durable bindings."""
    return [
        {
            "vhost": plain(row.vhost),
            "source": plain(row.source),
            "destination": plain(row.destination),
            "destination_type": row.destination_kind,
            "routing_key": plain(row.routing_key),
            "arguments": headers_to_json(arguments_of(row.arguments)),
        }
        for row in found.bindings
    ]


def queue_rows(directory: DataDirectory) -> list[dict[str, Any]]:
    """Rows of all queues, and of exchanges with delayed messages, with their contents in the store.

    `oldest` is the position of the first message, `oldest_timestamp` its timestamp (in a stream, its time of
    publishing). The last rows are messages of unknown queues, under the queue's number alone, and those of transient
    queues, which a start deletes.
    """
    found = {
        row.id: _queue_row(row.vhost, row.name, type_of(row), bool(row.auto_delete), row.arguments)
        for row in directory.definitions.queues
    }
    for exchange in directory.definitions.exchanges:
        if exchange.queue_id:
            found[exchange.queue_id] = _queue_row(
                exchange.vhost, exchange.name, DELAY, bool(exchange.auto_delete), exchange.arguments
            )
    for lane in directory.messages.lanes():
        if lane.queue_id >= TRANSIENT_QUEUE:
            row = found.setdefault(TRANSIENT_QUEUE, _queue_row(kind="transient"))
        else:
            row = found.setdefault(lane.queue_id, _queue_row())
            row["queue_id"] = lane.queue_id
        row["messages"] += lane.messages
        row["bytes"] += lane.bytes
        if lane.messages and (row["oldest"] is None or lane.oldest < row["oldest"]):
            row["oldest"] = lane.oldest
            row["oldest_timestamp"] = _timestamp(directory, lane)
    return list(found.values())


def _queue_row(
    vhost: str | None = None,
    name: str | None = None,
    kind: str | None = None,
    auto_delete: bool | None = None,
    arguments: bytes | None = None,
) -> dict[str, Any]:
    return {
        "vhost": None if vhost is None else plain(vhost),
        "queue": None if name is None else plain(name),
        "type": kind,
        "messages": 0,
        "bytes": 0,
        "oldest": None,
        "oldest_timestamp": None,
        "auto_delete": auto_delete,
        "arguments": None if arguments is None else headers_to_json(arguments_of(arguments)),
        "queue_id": None,
    }


def _timestamp(directory: DataDirectory, lane: LaneContents) -> datetime | None:
    (first,) = islice(directory.messages.ranges(lane.queue_id, lane.lane, 1), 1)
    found = islice(directory.messages.messages(Range(lane.queue_id, lane.lane, first.first, POSITION_END)), 1)
    for row in map(readable, rows(found, directory.owners())):
        found_at: datetime | None = row["published_at"] or row["timestamp"]
        return found_at
    return None


def message_rows(directory: DataDirectory, vhost: str | None, queue: str | None) -> Iterator[Row]:
    """Yield the messages of the queues with these names (None: any), queue by queue."""
    owners = directory.owners()
    for queue_id, lane in directory.messages.places():
        owner = owners.get(queue_id)
        if queue_id < TRANSIENT_QUEUE and is_wanted(owner, vhost, queue):
            found = directory.messages.messages(Range(queue_id, lane, 0, POSITION_END))
            yield from rows(found, owners)


def is_wanted(owner: Owner | None, vhost: str | None, queue: str | None) -> bool:
    """True if messages of an owner are those of a virtual host and a queue; None: of any."""
    of_vhost, of_queue = (None, None) if owner is None else owner[:2]
    return vhost in (None, of_vhost) and queue in (None, of_queue)
