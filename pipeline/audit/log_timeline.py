"""What a node's log knows of moments: which are on disk, where a copy must be recorded, where gaps are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.audit.log_coverage import Coverage
from pipeline.audit.reduction import NEVER, SEQ_BITS

NEARBY_EVENTS = 1 << 13
"""So many events behind its publish a message has reached its queues, and behind its death its letter is published."""


class LogTimeline:
    """What a node's log knows of moments."""

    def __init__(self, coverage: Coverage) -> None:
        boots = coverage.boots
        self._boots = np.array([boot.boot for boot in boots], np.int64)
        self._horizons = np.array([*(boot.horizon for boot in boots), NEVER])
        self._whole = {boot.boot for boot in boots if boot.first == 1}
        self._gaps = np.array(sorted(gap.moment for gap in coverage.gaps), np.int64)
        self._doubts = np.array(sorted(gap.moment for gap in coverage.gaps if gap.doubtful), np.int64)
        starts = [(boot.snapshot, boot.boot, True, boot.snapshot) for boot in boots if boot.snapshot is not None]
        stops = [(boot.stopped, boot.boot, False, boot.snapshot or -1) for boot in boots if boot.complete]
        records = sorted((*starts, *stops))
        self._records, self._boot, self._start, self._snapshot = (
            np.array([record[at] for record in records], kind)
            for at, kind in enumerate((np.int64, np.int64, bool, np.int64))
        )

    def certain(self, moments: Any) -> Any:
        """Moments that are known to be on disk; NEVER in place of others."""
        at = np.searchsorted(self._boots, boot_of(moments))
        return np.where(moments <= self._horizons[at], moments, NEVER)

    def absent(self, last: Any, recorded: Any) -> Any:
        """The first full record in which a copy is missing that was last heard of at a moment, `recorded` as queued.

        At a start everything is recorded behind what was last heard of a copy in an earlier boot; at an orderly stop
        too, unless the last that was heard of it is that record itself, and not the one at the start.
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

    def doubts(self, since: Any, until: Any) -> Any:
        """Whether a gap that leaves doubt lies between moments."""
        return _any_between(self._doubts, since, until)

    def torn(self, since: Any, until: Any) -> Any:
        """Whether any gap lies between moments."""
        return _any_between(self._gaps, since, until)

    def complete(self, boot: Any, until: Any) -> Any:
        """Whether the log has everything that reached the disk from the beginning of a boot up to a moment."""
        whole = np.isin(boot, list(self._whole))
        return whole & ~self.doubts(boot << SEQ_BITS, until)

    def in_doubt(self, since: Any, until: Any) -> dict[int, int]:
        """How many of some stretches each gap that leaves doubt lies in, by its moment."""
        change = np.zeros(len(self._doubts) + 1, np.int64)
        np.add.at(change, np.searchsorted(self._doubts, since), 1)
        np.add.at(change, np.searchsorted(self._doubts, until), -1)
        return dict(zip(self._doubts.tolist(), np.cumsum(change)[:-1].tolist(), strict=True))


def _any_between(moments: Any, since: Any, until: Any) -> Any:
    return np.searchsorted(moments, since) < np.searchsorted(moments, until)


def boot_of(moments: Any) -> Any:
    """The boots of moments."""
    return moments >> SEQ_BITS


def where(moment: Any) -> str:
    """A moment in words."""
    return f"boot {int(moment) >> SEQ_BITS}, event {int(moment) & (1 << SEQ_BITS) - 1}"
