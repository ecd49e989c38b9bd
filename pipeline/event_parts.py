"""Events from wherever they are, in parts that can be read apart: segments in a directory, segments by HTTP, an export.

An export is read by its manifest, so that files which are not whole are not seen. Each event comes once: where two
segments have the same events, as behind a restored backup, the second is read from where the first has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leveret_spark.events.event_columns import SCHEMA, encoded_batches
from leveret_spark.events.sealed_segments import WEB_SCHEMES, Segments, segments_of
from leveret_spark.events.segment_format import MARK, SegmentName, parse_name, parse_unsealed
from leveret_spark.options import Given
from pipeline.export import MANIFEST, MANIFEST_FORMAT
from pipeline.file_target import ManifestError, Target, listed
from storage.events.event_tail import parse_tail

TEXTS = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
LOCAL = ("file://", "file:")


class Part(NamedTuple):
    """Some events of a boot: a segment, or a file of an export. Those up to `after` are in another part."""

    source: Segments | Target
    name: SegmentName
    after: int = 0

    def batches(self, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        """Some columns of the events, text dictionary-encoded. Places of damage are put into a list.

        Raises OSError; SegmentError for a segment of an unknown version. One that the broker has removed is empty.
        """
        for batch in self._exported(columns) if isinstance(self.source, Target) else self._logged(columns, damaged):
            rest = batch.filter(pc.greater(batch.column("seq"), self.after)) if self.after else batch
            if rest.num_rows:
                yield rest

    def _logged(self, columns: Sequence[str], damaged: list[int]) -> Iterator[pa.RecordBatch]:
        assert not isinstance(self.source, Target)
        try:
            data = self.source.read(self.name)
        except FileNotFoundError:
            return
        if data.startswith(MARK):
            yield from encoded_batches(self.name, data, columns, damaged)
        else:
            damaged.append(0)

    def _exported(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert isinstance(self.source, Target)
        with self.source.open(exported_name(self.name)) as file:
            yield from pq.ParquetFile(file, read_dictionary=TEXTS).iter_batches(columns=list(columns))


def exported_name(name: SegmentName) -> str:
    """The file of an export that has the events of a segment."""
    return str(name).removesuffix(".events") + ".parquet"


def parts_of(where: str, options: Mapping[str, str] | None = None) -> list[Part]:
    """The events in a directory, an export or at a URL; `options` are those of the source `leveret-events` for a URL.

    Raises OSError for a directory that is not there, ManifestError for an export that cannot be read.
    """
    if where.startswith(WEB_SCHEMES):
        source = segments_of(Given({**(options or {}), "url": where}))
        return _parts(source, source.names())
    local = _local(where)
    if local is not None:
        next(local.iterdir(), None)
        if not (local / MANIFEST).exists():
            source = segments_of(Given({"path": str(local)}))
            return _parts(source, source.names())
    target = Target(where)
    if target.size(MANIFEST) is None:
        raise ManifestError(f"{where}: no {MANIFEST}, so this is no export of events")
    files = (entry["file"].removesuffix(".parquet") + ".events" for entry in listed(target, MANIFEST, MANIFEST_FORMAT))
    return _parts(target, sorted(name for name in map(parse_name, files) if name is not None))


def has_unsealed(where: str) -> bool:
    """Whether a broker may keep its newest events where readers do not see them: in no segment that is sealed."""
    local = _local(where)
    if local is None:
        return where.startswith(WEB_SCHEMES)
    return any(parse_unsealed(path.name) or parse_tail(path.name) for path in local.iterdir())


def _parts(source: Segments | Target, names: Sequence[SegmentName]) -> list[Part]:
    parts, last = [], dict[tuple[str, int], int]()
    for name in names:
        after = last.get(name[:2], 0)
        if name.last > after:
            parts.append(Part(source, name, after if name.first <= after else 0))
        last[name[:2]] = max(after, name.last)
    return parts


def _local(where: str) -> Path | None:
    """The directory on this machine that is meant, if it is one."""
    for prefix in LOCAL:
        if where.startswith(prefix):
            return Path(where.removeprefix(prefix))
    return None if "://" in where else Path(where)
