"""Timeline of a node's log: which moments are on disk, the full records, and the gaps.

A moment is `boot << 40 | seq` and orders the events of a node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.audit.log_coverage import MISPLACED, NO_LOG, Coverage
from pipeline.audit.reduction import NEVER, SEQ_BITS

NEARBY_EVENTS = 1 << 13
"""Events within which a publish reaches its queues, and a death publishes its dead letter."""


class LogTimeline:
    """Answers questions about moments of one node; all arguments and results are arrays."""

    def __init__(self, coverage: Coverage) -> None:
        boots = coverage.boots
        self._boots = np.array([boot.boot for boot in boots], np.int64)
        self._lasts = np.array([boot.boot << SEQ_BITS | boot.last for boot in boots], np.int64)
        self._horizons = np.array([*(boot.horizon for boot in boots), NEVER])
        self._whole = {boot.boot for boot in boots if boot.first == 1}
        self._gaps = np.array(sorted(gap.moment for gap in coverage.gaps if gap.kind != MISPLACED), np.int64)
        self._doubts = np.array(sorted(gap.moment for gap in coverage.gaps if gap.doubtful), np.int64)
        self._unlogged = np.array(
            sorted(gap.moment for gap in coverage.gaps if gap.doubtful and gap.kind == NO_LOG), np.int64
        )
        starts = [(boot.snapshot, boot.boot, True, boot.snapshot) for boot in boots if boot.snapshot is not None]
        stops = [(boot.stopped, boot.boot, False, boot.snapshot or -1) for boot in boots if boot.complete]
        records = sorted((*starts, *stops))
        self._records, self._boot, self._start, self._snapshot = (
            np.array([record[at] for record in records], kind)
            for at, kind in enumerate((np.int64, np.int64, bool, np.int64))
        )

    def certain(self, moments: Any) -> Any:
        """Return moments that are known to be on disk; NEVER in place of others."""
        at = np.searchsorted(self._boots, boot_of(moments))
        return np.where(moments <= self._horizons[at], moments, NEVER)

    def absent(self, last: Any, recorded: Any) -> Any:
        """Return the first full record from which a copy is absent, given the moment of its last event.

        `recorded`: that event is an entry of a full record. The record of a start covers copies of earlier boots; that
        of an orderly stop covers also its own boot, unless the copy's last event is its entry in this very record.
        """
        at = np.searchsorted(self._records, last, side="right")
        boot, end = boot_of(last), len(self._records)
        waiting = np.flatnonzero(at < end)
        while len(waiting):
            record = at[waiting]
            own = self._boot[record] == boot[waiting]
            fresh = recorded[waiting] & (last[waiting] > self._snapshot[record])
            waiting = waiting[own & (self._start[record] | fresh)]
            at[waiting] += 1
            waiting = waiting[at[waiting] < end]
        return np.append(self._records, NEVER)[at]

    def recorded_at_stop(self, moments: Any) -> Any:
        """True for moments, of entries in full records, that are in the record of an orderly stop."""
        starts = self._records[self._start]
        boot = np.searchsorted(boot_of(starts), boot_of(moments))
        snapshot = np.append(starts, NEVER)[boot]
        return (boot_of(snapshot) == boot_of(moments)) & (moments > snapshot)

    def doubts(self, since: Any, until: Any) -> Any:
        """True where a doubtful gap lies between two moments."""
        return _any_between(self._doubts, since, until)

    def after(self, moments: Any, end: Any) -> Any:
        """True for moments behind an end that holds: without a log, a restored backup may bring back what ended."""
        return (moments > end) & ~_any_between(self._unlogged, end, np.maximum(moments, end))

    def torn(self, since: Any, until: Any) -> Any:
        """True where any gap lies between two moments."""
        return _any_between(self._gaps, since, until)

    def complete(self, boot: Any, until: Any) -> Any:
        """True where the log has all that reached the disk from the start of a boot up to a moment."""
        whole = np.isin(boot, list(self._whole))
        return whole & ~self.doubts(boot << SEQ_BITS, until)

    def whole(self, boots: Any) -> Any:
        """True where the log has all of a boot that reached the disk, as far as it goes."""
        at = np.minimum(np.searchsorted(self._boots, boots), len(self._boots) - 1)
        return self.complete(boots, self._lasts[at])

    def in_doubt(self, since: Any, until: Any) -> dict[int, int]:
        """Count the stretches in which each doubtful gap lies, by its moment."""
        change = np.zeros(len(self._doubts) + 1, np.int64)
        np.add.at(change, np.searchsorted(self._doubts, since), 1)
        np.add.at(change, np.searchsorted(self._doubts, until), -1)
        return dict(zip(self._doubts.tolist(), np.cumsum(change)[:-1].tolist(), strict=True))


def _any_between(moments: Any, since: Any, until: Any) -> Any:
    return np.searchsorted(moments, since) < np.searchsorted(moments, until)


def boot_of(moments: Any) -> Any:
    """Return the boots of moments."""
    return moments >> SEQ_BITS


def where(moment: Any) -> str:
    """Return a moment as text."""
    return f"boot {int(moment) >> SEQ_BITS}, event {int(moment) & (1 << SEQ_BITS) - 1}"
