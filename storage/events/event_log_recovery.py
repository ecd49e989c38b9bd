"""Recovery of the event log at a start: an unsealed segment and tails of a killed process are sealed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from leveret_events.segment_blocks import START, Block, SegmentError
from leveret_events.segment_names import SegmentName, node_name, parse_name, parse_unsealed, sealed_segments
from storage.events.event_segment_file import EventSegmentFile
from storage.events.event_tail_file import as_segment_blocks, parse_tail, tail_blocks

log = logging.getLogger("leveret.events")

Found = list[tuple[SegmentName, Path]]


def seal_left_over(directory: Path, node: str) -> None:
    """Seal the files that an earlier process of a node left. May be interrupted and repeated. Raises OSError."""
    segments, tails = _found(directory, node, parse_unsealed), _found(directory, node, parse_tail)
    for boot in sorted({name.boot for name, _ in (*segments, *tails)}):
        _seal(directory, node, boot, segments, [path for name, path in tails if name.boot == boot])


def highest_boot(directory: Path, node: str) -> int:
    """Highest boot of a node in the file names of a directory; 0 for none. Raises OSError."""
    if not directory.is_dir():
        return 0
    names = [path.name for path in directory.iterdir()]
    found = (parse(name) for name in names for parse in (parse_name, parse_unsealed, parse_tail))
    return max((name.boot for name in found if name is not None and name.node == node_name(node)), default=0)


def _found(directory: Path, node: str, parse: Callable[[str], SegmentName | None]) -> Found:
    names = ((parse(path.name), path) for path in directory.iterdir())
    return sorted((name, path) for name, path in names if name is not None and name.node == node)


def _seal(directory: Path, node: str, boot: int, segments: Found, tails: list[Path]) -> None:
    """Seal one boot: events of tails that are in no segment go into the last one. On a disk error the tails stay."""
    segment = None
    for name, path in segments:
        if name.boot == boot:
            if segment is not None:  # only the last segment of a boot can lack events of the tails
                segment.seal()
            segment = _opened(path, name)
    try:
        for block, first, events in as_segment_blocks(_missing(directory, node, boot, segment, tails)):
            segment = segment or EventSegmentFile.create(directory, node, boot, first, 0.0)
            segment.add(block, first, events)
    except OSError as error:
        log.error("cannot add events of boot %d to the event log, the next start will: %s", boot, error)
        tails = []
    if segment is not None:
        segment.seal()
    for path in tails:
        path.unlink()


def _missing(directory: Path, node: str, boot: int, segment: EventSegmentFile | None, tails: list[Path]) -> list[Block]:
    """Blocks of tails that are in none of a boot's segments, sealed or not, nor in an earlier tail."""
    last = max((name.last for name in sealed_segments(directory) if name[:2] == (node, boot)), default=0)
    last = max(last, 0 if segment is None else segment.last)
    missing = list[Block]()
    for block in (block for path in tails for block in tail_blocks(path.read_bytes())):
        if block.first > last:
            missing.append(block)
            last = block.first + block.events - 1
    return missing


def _opened(path: Path, name: SegmentName) -> EventSegmentFile | None:
    if START.startswith(path.read_bytes()):
        path.unlink()
        return None
    try:
        return EventSegmentFile.left_over(path, name)
    except SegmentError as error:
        log.error("event segment %s stays unsealed: %s", path, error)
        return None
