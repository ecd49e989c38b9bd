"""Events from wherever they are, in parts that can be read apart: segments in a directory, segments by HTTP, an export.

A segment ends by its bytes, and 15 million events may lie in 15 MB. So parts are bounded by events: a segment with more
of them is read in several parts, each of which decodes the blocks that have its events. An export is read by its
manifest, so that files which are not whole are not seen. Each event comes once: where two segments have the same
events, as behind a restored backup, the second is read from where the first has ended.
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
"""The most events of a part. What an audit keeps of so many takes some 50 MB, at the most 200."""


class Part(NamedTuple):
    """Some events of a boot: those of a segment, or a file of an export, behind `after` and up to `until`."""

    source: Segments | Target
    name: SegmentName
    after: int
    until: int

    @property
    def events(self) -> int:
        """How many there are, unless some were lost."""
        return self.until - self.after

    def batches(self, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        """Some columns of the events, `seq` among them, text dictionary-encoded. Places of damage in all of the
        segment are put into a list.

        Raises OSError; SegmentError for a segment of an unknown version. One that the broker has removed is empty.
        """
        for batch in self._exported(columns) if isinstance(self.source, Target) else self._logged(columns, damaged):
            begin, end = batch.column("seq").to_numpy().searchsorted((self.after, self.until), side="right").tolist()
            if begin < end:
                yield batch.slice(begin, end - begin)

    def _logged(self, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        assert not isinstance(self.source, Target)
        try:
            data = _content(self.source, self.name)
        except FileNotFoundError:
            return
        if data.startswith(MARK):
            yield from encoded_batches(self.name, data, columns, damaged, after=self.after, until=self.until)
        else:
            damaged.append(0)

    def _exported(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert isinstance(self.source, Target)
        with self.source.open(exported_name(self.name)) as opened:
            file = pq.ParquetFile(opened, read_dictionary=TEXTS)
            seq, about = file.schema_arrow.get_field_index("seq"), file.metadata
            known = [about.row_group(group).column(seq).statistics for group in range(file.num_row_groups)]
            groups = [group for group, limits in enumerate(known) if self._may_lie_in(limits)]
            yield from file.iter_batches(row_groups=groups, columns=list(columns))

    def _may_lie_in(self, limits: pq.Statistics | None) -> bool:
        """Whether events of this part may be in a group of rows, by the least and the greatest `seq` of those."""
        if limits is None or not limits.has_min_max:
            return True
        return bool(limits.min <= self.until and limits.max > self.after)


@lru_cache(maxsize=1)
def _content(source: Segments, name: SegmentName) -> bytes:
    """A whole segment. Its parts are read one after another, and by HTTP it has to come once for all of them."""
    return source.read(name)


def exported_name(name: SegmentName) -> str:
    """The file of an export that has the events of a segment."""
    return str(name).removesuffix(".events") + ".parquet"


def parts_of(where: str, options: Mapping[str, str] | None = None, most: int = PART_EVENTS) -> list[Part]:
    """The events in a directory, an export or at a URL, in parts of at most so many.

    `options` are those of the source `leveret-events` for a URL.
    Raises OSError for a directory that is not there, ManifestError for an export that cannot be read.
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
    """Whether a broker may keep its newest events where readers do not see them: in no segment that is sealed."""
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
    """A part in parts of at most so many events, about as many in each."""
    count = -(-part.events // most)
    borders = [part.after + part.events * number // count for number in range(count + 1)]
    return [part._replace(after=after, until=until) for after, until in pairwise(borders)]


def _local(where: str) -> Path | None:
    """The directory on this machine that is meant, if it is one."""
    for prefix in LOCAL:
        if where.startswith(prefix):
            return Path(where.removeprefix(prefix))
    return None if "://" in where else Path(where)
