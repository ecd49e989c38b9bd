"""Parts of an event log that can be read independently: of segments in a directory or by HTTP, or of an export.

A segment is limited in bytes, and 15 million events may be in 15 MB. So parts are limited in events: a segment with
more is read in several parts, each of which decodes only the blocks with its events. An export is read by its manifest,
which lists only complete files. Each event comes once: if two segments have the same events, as behind a restored
backup, the second is read from the end of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from leveret_events.segment_blocks import MARK
from leveret_events.segment_names import SegmentName, parse_name, parse_unsealed
from leveret_spark.events.event_columns import SCHEMA, encoded_batches
from leveret_spark.events.sealed_segments import WEB_SCHEMES, Segments, segments_of
from leveret_spark.options import Given
from pipeline.export import MANIFEST, MANIFEST_FORMAT
from pipeline.file_target import ManifestError, Target, listed
from storage.events.event_tail_file import parse_tail

TEXTS = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
LOCAL = ("file://", "file:")
PART_EVENTS = 1 << 20
"""Limit of events in a part. Its reduction in an audit takes about 50 MB, at most 200."""


class Part(NamedTuple):
    """Events `after` < seq <= `until` of one boot, in a segment or in a file of an export."""

    source: Segments | Target
    name: SegmentName
    after: int
    until: int

    @property
    def events(self) -> int:
        """Number of events, if none were lost."""
        return self.until - self.after

    def batches(self, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the events, `seq` among them, text dictionary-encoded.

        Offsets of damage in the whole segment are appended to `damaged`. A segment that the broker has removed is
        empty. Raises OSError; SegmentError for a segment of an unknown version.
        """
        source = self.source
        for batch in (
            self._exported(source, columns, damaged)
            if isinstance(source, Target)
            else self._logged(source, columns, damaged)
        ):
            begin, end = batch.column("seq").to_numpy().searchsorted((self.after, self.until), side="right").tolist()
            if begin < end:
                yield batch.slice(begin, end - begin)

    def _logged(self, source: Segments, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        try:
            data = _content(source, self.name)
        except FileNotFoundError:
            return
        if data.startswith(MARK):
            yield from encoded_batches(self.name, data, columns, damaged, after=self.after, until=self.until)
        else:
            damaged.append(0)

    def _exported(self, source: Target, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        with source.open(exported_name(self.name)) as opened:
            file = pq.ParquetFile(opened, read_dictionary=TEXTS)
            seq, about = file.schema_arrow.get_field_index("seq"), file.metadata
            known = [about.row_group(group).column(seq).statistics for group in range(file.num_row_groups)]
            if not self._has_its_events(file):
                damaged.append(0)
            groups = [group for group, limits in enumerate(known) if self._may_lie_in(limits)]
            there = [name for name in columns if name in file.schema_arrow.names]
            for batch in file.iter_batches(row_groups=groups, columns=there):
                yield batch if len(there) == len(columns) else _with_nulls(batch, columns)

    def _has_its_events(self, file: pq.ParquetFile) -> bool:
        """Return whether a file has the boot and the events that its name says, by its statistics if it has some."""
        for column, ends in (("boot", (self.name.boot, self.name.boot)), ("seq", (self.name.first, self.name.last))):
            at = file.schema_arrow.get_field_index(column)
            known = [file.metadata.row_group(group).column(at).statistics for group in range(file.num_row_groups)]
            if all(limits is not None and limits.has_min_max for limits in known):
                found = min((each.min for each in known), default=0), max((each.max for each in known), default=0)
                if found != ends:
                    return False
        return True

    def _may_lie_in(self, limits: pq.Statistics | None) -> bool:
        """True if a row group may have events of this part, by the minimum and maximum of its `seq`."""
        if limits is None or not limits.has_min_max:
            return True
        return bool(limits.min <= self.until and limits.max > self.after)


def _with_nulls(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Add the columns that an export of an earlier release lacks, as nulls."""
    arrays = [
        batch.column(name) if name in batch.schema.names else pa.nulls(len(batch), SCHEMA.field(name).type)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@lru_cache(maxsize=1)
def _content(source: Segments, name: SegmentName) -> bytes:
    """Read a whole segment. It is cached: its parts are read one after another, and HTTP would fetch it for each."""
    return source.read(name)


def exported_name(name: SegmentName) -> str:
    """Name of the file of an export with the events of a segment."""
    return str(name).removesuffix(".events") + ".parquet"


def parts_of(where: str, options: Mapping[str, str] | None = None, most: int = PART_EVENTS) -> list[Part]:
    """Divide the events of a directory, an export or a URL into parts of at most `most` events.

    `options` are those of the source `leveret-events` for a URL.
    Raises OSError for a missing directory, ManifestError for an export that cannot be read.
    """
    if where.startswith(WEB_SCHEMES):
        source = segments_of(Given({**(options or {}), "url": where}))
        return _parts(source, source.names(), most)
    local = _local(where)
    if local is not None:
        next(local.iterdir(), None)
        if not (local / MANIFEST).exists():
            source = segments_of(Given({"path": str(local)}))
            return _parts(source, source.names(), most)
    target = Target(where)
    if target.size(MANIFEST) is None:
        raise ManifestError(f"{where}: no {MANIFEST}, so this is no export of events")
    files = (entry["file"].removesuffix(".parquet") + ".events" for entry in listed(target, MANIFEST, MANIFEST_FORMAT))
    return _parts(target, sorted(name for name in map(parse_name, files) if name is not None), most)


def has_unsealed(where: str) -> bool:
    """True if a broker may have events that are in no sealed segment yet, where readers do not see them."""
    local = _local(where)
    if local is None:
        return where.startswith(WEB_SCHEMES)
    return any(parse_unsealed(path.name) or parse_tail(path.name) for path in local.iterdir())


def _parts(source: Segments | Target, names: Sequence[SegmentName], most: int) -> list[Part]:
    parts, last = list[Part](), dict[tuple[str, int], int]()
    for name in names:
        after = max(last.get(name[:2], 0), name.first - 1)
        if name.last > after:
            parts += _divided(Part(source, name, after, name.last), most)
        last[name[:2]] = max(after, name.last)
    return parts


def _divided(part: Part, most: int) -> list[Part]:
    """Divide a part evenly into parts of at most `most` events."""
    count = -(-part.events // most)
    borders = [part.after + part.events * number // count for number in range(count + 1)]
    return [part._replace(after=after, until=until) for after, until in pairwise(borders)]


def _local(where: str) -> Path | None:
    """Return the local directory that `where` names; None for a URL or URI."""
    for prefix in LOCAL:
        if where.startswith(prefix):
            return Path(where.removeprefix(prefix))
    return None if "://" in where else Path(where)
