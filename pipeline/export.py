"""Export of sealed segments to Parquet: a file for each, and a manifest of the complete ones.

A file is written under a hidden name, synced on local disks, and renamed; then the manifest that lists it is replaced
in the same way. So a reader that follows the manifest never sees half a file, and an interrupted export continues
behind the last listed file. Files have the names of their segments: writing one again changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from leveret_events.segment_blocks import SegmentError
from leveret_events.segment_names import SegmentName
from leveret_spark.events.event_columns import SCHEMA, record_batches
from leveret_spark.events.sealed_segments import WEB_SCHEMES, Segments, segments_of
from leveret_spark.options import Given
from pipeline.file_target import Target, listed

MANIFEST = "_manifest.json"
MANIFEST_FORMAT = 1
ROW_GROUP_ROWS = 500_000

NUMBERS = [field.name for field in SCHEMA if pa.types.is_int64(field.type) or pa.types.is_timestamp(field.type)]
TEXTS = [field.name for field in SCHEMA if field.name not in NUMBERS]
STEPS = "DELTA_BINARY_PACKED"
"""Encoding by differences: numbers that mostly grow by one take next to no space."""


class ExportedFile(NamedTuple):
    """An entry of the manifest. `missing`: events that the log had lost."""

    file: str
    node: str
    boot: int
    first: int
    last: int
    rows: int
    missing: int
    bytes: int
    sha256: str
    segment_sha256: str


class Export:
    """Export of the segments that the target does not have yet, oldest first."""

    def __init__(self, source: Segments, target: Target) -> None:
        """Raises OSError and ManifestError."""
        self._source = source
        self._target = target
        entries = [ExportedFile(**entry) for entry in listed(target, MANIFEST, MANIFEST_FORMAT)]
        self._files = [file for file in entries if target.size(file.file) == file.bytes]
        known = {file.file for file in self._files}
        todo = [name for name in source.names() if _file_name(name) not in known]
        self.sizes = {name: size for name in todo if (size := _size(source, name)) is not None}
        """Segments to export, and their bytes."""

    def run(self, name: SegmentName) -> ExportedFile | None:
        """Export a segment: its file is complete and listed. None if the broker has removed it since.

        Raises OSError and SegmentError.
        """
        try:
            data = self._source.read(name)
        except FileNotFoundError:
            return None
        try:
            file = _export_segment(self._target, name, data)
        except SegmentError as error:
            raise SegmentError(f"{name}: {error}") from None
        self._files.append(file)
        listed = {"format": MANIFEST_FORMAT, "files": [each._asdict() for each in self._files]}
        self._target.put(MANIFEST, json.dumps(listed, indent=1).encode())
        return file


def begin(source: str, where: str, options: Mapping[str, str]) -> Export:
    """Create an export of the segments of a directory, or of a URL with options of the Spark source, to a path or URI.

    Raises OSError, ManifestError, and ValueError for a place that cannot be parsed.
    """
    if source.startswith(WEB_SCHEMES):
        # A wrong address fails at once; a broker that is away later is waited for.
        segments_of(Given({**options, "path": source, "reconnectSeconds": "0"})).names()
    return Export(segments_of(Given({"path": source, **options})), Target(where))


def _export_segment(target: Target, name: SegmentName, data: bytes) -> ExportedFile:
    sink, rows = pa.BufferOutputStream(), 0
    with pq.ParquetWriter(
        sink, SCHEMA, compression="zstd", use_dictionary=TEXTS, column_encoding=dict.fromkeys(NUMBERS, STEPS)
    ) as writer:
        for table in _tables(name, data):
            writer.write_table(table)
            rows += table.num_rows
    content = sink.getvalue()
    target.put(_file_name(name), content)
    return ExportedFile(
        file=_file_name(name),
        node=name.node,
        boot=name.boot,
        first=name.first,
        last=name.last,
        rows=rows,
        missing=name.last - name.first + 1 - rows,
        bytes=content.size,
        sha256=hashlib.sha256(content).hexdigest(),
        segment_sha256=hashlib.sha256(data).hexdigest(),
    )


def _tables(name: SegmentName, data: bytes) -> Iterator[pa.Table]:
    """Yield the events of a segment in tables of a row group's size."""
    batches: list[pa.RecordBatch] = []
    for batch in record_batches(name, data):
        batches.append(batch)
        if len(batches) * batch.num_rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(batches)
            batches = []
    if batches:
        yield pa.Table.from_batches(batches)


def _size(source: Segments, name: SegmentName) -> int | None:
    try:
        return source.size(name)
    except FileNotFoundError:
        return None


def _file_name(name: SegmentName) -> str:
    return str(name).removesuffix(".events") + ".parquet"
