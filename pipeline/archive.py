"""Archive of a queue's messages in Parquet files: messages are acknowledged once their file is complete.

A file is written under a hidden name, synced and renamed, then listed in a manifest that is replaced in the same way.
Then its messages are acknowledged, and the broker has handled that before the next file is listed. After a kill at any
moment a message is in the queue or in a listed file: in both if the kill came between the two, never in neither.

Each run has a unique name, of time and random digits, and numbers its files: nothing is ever overwritten. Each run has
a manifest of its own too, so that several may archive into one place, also where nothing can be locked.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from leveret_spark.amqp.client_connection import is_hopeless
from leveret_spark.amqp.received_message import DELIVERY, PROPERTIES
from leveret_spark.amqp.unacked_consumer import LOST, Delivery, UnackedConsumer, failure
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import PREFETCH_MAX, Broker, broker_of
from leveret_spark.queues.batch_intake import ready_messages
from leveret_spark.queues.message_columns import ARROW_SCHEMA, record_batch
from pipeline.file_target import Target, listed

MANIFEST = "_manifest-"
MANIFEST_FORMAT = 1
MANIFEST_FILES = 1000
"""Files in one manifest. Then a new one begins, because each file rewrites its manifest."""

STAMP = "x-leveret-message-id"
"""The header with the number of a message, where the broker stamps it."""

RETRY_SECONDS = 0.5
HEADERS_AT = 1 + len(DELIVERY) + PROPERTIES.index("headers")

SCHEMA = pa.schema(
    [
        *ARROW_SCHEMA,
        pa.field("vhost", pa.string()),
        pa.field("msg_id", pa.int64()),
        pa.field("size_bytes", pa.int32()),
        pa.field("archived_at", pa.timestamp("us", "UTC")),
    ]
)
"""The columns of the source `amqp`, and those of the archive."""

WORDS = [
    field.name for field in SCHEMA if pa.types.is_string(field.type) and field.name not in ("message_id", "headers")
]
"""Columns whose values are few."""


@dataclass(frozen=True)
class FileLimits:
    """Limits at which a file is complete: messages, bytes of bodies, or seconds after its first message."""

    messages: int = 10_000
    bytes: int = 64 << 20
    seconds: float = 60.0


class ArchivedFile(NamedTuple):
    """A file as a manifest lists it."""

    file: str
    vhost: str
    queue: str
    rows: int
    bytes: int
    sha256: str
    archived_at: str


class FileError(Exception):
    """A file could not be written; its messages are in the queue."""


FAILURES = (FileError, AmqpError, ValueError)
"""Expected errors, beside OSError: the message is shown, not a traceback."""


class Files:
    """The files of one run."""

    def __init__(self, target: Target, broker: Broker, queue: str) -> None:
        self._target = target
        self._vhost = broker.vhost
        self._queue = queue
        self._listed: list[ArchivedFile] = []
        self._run = _new_run()

    def put(self, deliveries: list[Delivery]) -> ArchivedFile:
        """Write messages into a file that is complete, synced and listed.

        Raises FileError, and then no file has them.
        """
        if len(self._listed) == MANIFEST_FILES:
            self._run, self._listed = _new_run(), []
        now = datetime.now(UTC)
        content = _parquet(_table(deliveries, self._vhost, self._queue, now))
        file = ArchivedFile(
            file=f"{_plain(self._queue)}-{self._run}-{len(self._listed) + 1:06}.parquet",
            vhost=self._vhost,
            queue=self._queue,
            rows=len(deliveries),
            bytes=content.size,
            sha256=hashlib.sha256(content).hexdigest(),
            archived_at=now.isoformat(),
        )
        try:
            self._target.put(file.file, content)
            self._put_manifest([*self._listed, file])
        except OSError as error:
            self._target.remove(file.file)
            raise FileError(str(error)) from error
        self._listed.append(file)
        return file

    def _put_manifest(self, files: list[ArchivedFile]) -> None:
        listed = {"format": MANIFEST_FORMAT, "files": [file._asdict() for file in files]}
        self._target.put(f"{MANIFEST}{self._run}.json", json.dumps(listed, indent=1).encode())


def _new_run() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def _plain(queue: str) -> str:
    """A queue's name as prefix of a file name: readers skip names that begin with a dot or an underscore."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", queue)[:80].lstrip("._") or "queue"


def _table(deliveries: list[Delivery], vhost: str, queue: str, now: datetime) -> pa.Table:
    messages = [delivery.message for delivery in deliveries]
    batch = record_batch(messages, queue)
    more = [
        pa.repeat(pa.scalar(vhost), len(messages)),
        pa.array([_number(message[HEADERS_AT]) for message in messages], pa.int64()),
        pa.array([len(message[0]) for message in messages], pa.int32()),
        pa.repeat(pa.scalar(now, SCHEMA.field("archived_at").type), len(messages)),
    ]
    return pa.Table.from_arrays([*batch.columns, *more], schema=SCHEMA)


def _number(headers: Mapping[str, object] | None) -> int | None:
    number = headers.get(STAMP) if headers else None
    return number if isinstance(number, int) else None


def _parquet(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=WORDS)
    return sink.getvalue()


class Wanted(NamedTuple):
    """Amount to archive: a number of messages, or (None) all until the queue is empty or, with `follows`, for good."""

    messages: int | None = None
    follows: bool = False


class Progress(NamedTuple):
    """Messages, bytes and files written by a run. Messages that came twice count twice."""

    messages: int = 0
    bytes: int = 0
    files: int = 0


class Archive:
    """A run: takes messages of a queue, file by file."""

    def __init__(self, broker: Broker, queue: str, files: Files, limits: FileLimits, *, keep: bool) -> None:
        """`keep`: acknowledge nothing; all messages return to the queue at the end."""
        self._broker = broker
        self._queue = queue
        self._files = files
        self._limits = limits
        self._keep = keep
        self._done = 0
        self.progress = Progress()

    def run(self, wanted: Wanted, *, is_stopped: Callable[[], bool], on_file: Callable[[Progress], None]) -> Progress:
        """Archive the wanted amount, or until `is_stopped`; `on_file` is called after each file.

        Reconnects after a lost connection, for as long as the broker's options say: unacknowledged messages come
        again. Raises AmqpError if the broker refuses or does not return, FileError if a file cannot be written.
        """
        lost_at: float | None = float("-inf")  # a first connection that fails is not retried
        while self._left(wanted) != 0:
            try:
                with UnackedConsumer(
                    self._broker, self._queue, "archives", prefetch=self._prefetch(wanted)
                ) as consumer:
                    lost_at = None
                    self._take(consumer, wanted, is_stopped, on_file)
                    return self.progress
            except LOST as error:
                now = time.monotonic()
                lost_at = now if lost_at is None else lost_at
                out_of_hope = is_hopeless(error) or now - lost_at >= self._broker.reconnect_seconds
                if out_of_hope or self._keep or is_stopped():
                    raise failure(self._broker, self._queue, error) from None
            time.sleep(RETRY_SECONDS)
        return self.progress

    def _take(
        self,
        consumer: UnackedConsumer,
        wanted: Wanted,
        is_stopped: Callable[[], bool],
        on_file: Callable[[Progress], None],
    ) -> None:
        """Archive over one connection, until it is lost or the wanted amount is done."""

        def is_over(gathered: int) -> bool:
            return is_stopped() or (not wanted.follows and consumer.is_empty())

        seconds = self._limits.seconds if wanted.follows else float("inf")
        while (left := self._left(wanted)) != 0 and not is_stopped():
            most = self._limits.messages if left is None else min(self._limits.messages, left)
            batch = consumer.gather(most, self._limits.bytes, seconds, is_over)
            if not batch:
                return
            consumer.meanwhile(partial(self._files.put, batch))
            size = sum(len(delivery.message[0]) for delivery in batch)
            messages, size_bytes, files = self.progress
            self.progress = Progress(messages + len(batch), size_bytes + size, files + 1)
            if not self._keep:
                self._settle(consumer, wanted, batch, is_stopped=is_stopped())
            self._done += len(batch)
            on_file(self.progress)

    def _settle(self, consumer: UnackedConsumer, wanted: Wanted, batch: list[Delivery], *, is_stopped: bool) -> None:
        left = None if wanted.messages is None else wanted.messages - self._done - len(batch)
        if left is not None or is_stopped:
            consumer.take_only(0 if is_stopped or left is None else left)
        consumer.settle(batch[-1])

    def _left(self, wanted: Wanted) -> int | None:
        return None if wanted.messages is None else max(0, wanted.messages - self._done)

    def _prefetch(self, wanted: Wanted) -> int:
        """Prefetch: one file of messages, two if all are wanted. With `keep`, all wanted ones; 0: any number."""
        left = self._left(wanted)
        if self._keep:
            return left or 0
        return min(2 * self._limits.messages, PREFETCH_MAX) if left is None else min(self._limits.messages, left)


def begin(options: Mapping[str, str], queue: str, where: str, limits: FileLimits, *, keep: bool) -> Archive:
    """Create an archive of a queue in a directory or URI, at the broker that the options of the source `amqp` name.

    Raises OptionError, OSError, and ValueError for a place that cannot be understood.
    """
    broker = broker_of(options)
    return Archive(broker, queue, Files(Target(where), broker, queue), limits, keep=keep)


def ready(options: Mapping[str, str], queue: str) -> int:
    """Return the number of ready messages of a queue. Raises AmqpError."""
    return ready_messages(broker_of(options), queue)


def archived_files(where: str) -> list[str]:
    """List the complete files of an archive, as paths for Spark and Parquet readers.

    Raises OSError, and ManifestError for a manifest that cannot be read.
    """
    target = Target(where)
    manifests = [name for name in target.names() if name.startswith(MANIFEST)]
    files = [file["file"] for name in manifests for file in listed(target, name, MANIFEST_FORMAT)]
    return [f"{where.rstrip('/')}/{file}" for file in sorted(files)]
