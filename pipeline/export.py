"""Sealed segments to Parquet: a file for each, and a manifest of what is whole.

A file is written under a hidden name, synced where that is up to us, and renamed; then the manifest that lists it is
replaced in the same way. So a reader that follows the manifest never sees half a file, and an export that was
interrupted goes on behind the last file that is listed. Files have the names of their segments: to write one again
changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from leveret_spark.events.event_columns import SCHEMA, record_batches
from leveret_spark.events.sealed_segments import WEB_SCHEMES, Segments, segments_of
from leveret_spark.events.segment_format import SegmentError, SegmentName
from leveret_spark.options import Given

MANIFEST = "_manifest.json"
MANIFEST_FORMAT = 1
ROW_GROUP_ROWS = 500_000

NUMBERS = [field.name for field in SCHEMA if pa.types.is_int64(field.type) or pa.types.is_timestamp(field.type)]
TEXTS = [field.name for field in SCHEMA if field.name not in NUMBERS]
STEPS = "DELTA_BINARY_PACKED"
"""Numbers that mostly grow by one take next to nothing as steps."""


class ExportedFile(NamedTuple):
    """A Parquet file of the export, as the manifest lists it. `missing` counts events that the log had lost."""

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


class ManifestError(Exception):
    """A manifest that this release cannot read."""


def listed(path: str, content: bytes, form: int) -> list[dict[str, Any]]:
    """What a manifest of such a format lists, of an export or of an archive. Raises ManifestError."""
    try:
        manifest = json.loads(content)
        if manifest["format"] != form:
            raise ManifestError(f"{path}: format {manifest['format']}, this release reads format {form}")
        return list(manifest["files"])
    except (ValueError, LookupError, TypeError) as error:
        raise ManifestError(f"{path}: is not a manifest, or is damaged: {error!r}") from error


class Target:
    """The directory that is exported to, in any file system that pyarrow knows."""

    def __init__(self, where: str) -> None:
        """`where` is a path or a URI such as s3://bucket/prefix. Raises OSError and ValueError."""
        if "://" in where:
            self._files, self._root = fs.FileSystem.from_uri(where)
        else:
            self._files, self._root = fs.LocalFileSystem(), str(Path(where).absolute())
        self._files.create_dir(self._root, recursive=True)

    def manifest(self) -> list[ExportedFile]:
        """The files that are whole. Raises ManifestError."""
        path = f"{self._root}/{MANIFEST}"
        if self._files.get_file_info(path).type is fs.FileType.NotFound:
            return []
        return [ExportedFile(**entry) for entry in listed(path, self.get(MANIFEST), MANIFEST_FORMAT)]

    def names(self) -> list[str]:
        """What is there."""
        return sorted(info.base_name for info in self._files.get_file_info(fs.FileSelector(self._root)))

    def has(self, file: ExportedFile) -> bool:
        """The file is there, in its size."""
        info = self._files.get_file_info(f"{self._root}/{file.file}")
        return info.type is fs.FileType.File and info.size == file.bytes

    def put(self, name: str, content: Any) -> None:
        """Have a file there whole, or not at all. Raises OSError, which names it."""
        try:
            self._put(f"{self._root}/_tmp.{name}", f"{self._root}/{name}", content)
        except OSError as error:
            self.remove(f"_tmp.{name}")
            raise OSError(f"{self._root}/{name}: {error}") from error

    def get(self, name: str) -> bytes:
        """A whole file. Raises OSError."""
        with self._files.open_input_stream(f"{self._root}/{name}", compression=None) as stream:
            return bytes(stream.read())

    def remove(self, name: str) -> None:
        """Have a file gone, if that can be."""
        try:
            self._files.delete_file(f"{self._root}/{name}")
        except OSError:  # it was not there, or will be found beside those that are listed
            pass

    def _put(self, hidden: str, final: str, content: Any) -> None:
        with self._files.open_output_stream(hidden, compression=None) as stream:
            stream.write(content)
        if isinstance(self._files, fs.LocalFileSystem):
            _sync(hidden)
        self._files.move(hidden, final)
        if isinstance(self._files, fs.LocalFileSystem):
            _sync(self._root)

    def put_manifest(self, files: list[ExportedFile]) -> None:
        """Say which files are whole."""
        entries = [file._asdict() for file in files]
        self.put(MANIFEST, json.dumps({"format": MANIFEST_FORMAT, "files": entries}, indent=1).encode())


class Export:
    """What the target does not have yet, to be exported oldest first."""

    def __init__(self, source: Segments, target: Target) -> None:
        """Raises OSError and ManifestError."""
        self._source = source
        self._target = target
        self._files = [file for file in target.manifest() if target.has(file)]
        known = {file.file for file in self._files}
        todo = [name for name in source.names() if _file_name(name) not in known]
        self.sizes = {name: size for name in todo if (size := _size(source, name)) is not None}
        """The segments to do, and their bytes."""

    def run(self, name: SegmentName) -> ExportedFile | None:
        """Export a segment: its file is whole, and listed. None if the broker has removed it since.

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
        self._target.put_manifest(self._files)
        return file


def begin(source: str, where: str, options: Mapping[str, str]) -> Export:
    """An export of the segments in a directory, or at a URL with options of the Spark source, to a path or URI.

    Raises OSError, ManifestError, and ValueError for a place that cannot be understood.
    """
    if source.startswith(WEB_SCHEMES):
        # Who has mistaken the address hears so at once; a broker that goes away later on is waited for.
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
    """The events of a segment, as many at a time as make a good row group."""
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


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
