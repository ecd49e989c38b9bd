"""Moments between which the log has the events of a finding: the first and the last of its events in each batch.

So its events are read again without the rest of the log, whose size they do not depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.audit.reduction import NEVER, Groups

OF_MESSAGES = ("published", "confirmed", "answered")
"""Columns of reduced messages with moments."""


def seen(
    chosen: Any, rows: dict[str, Any], groups: Groups, messages: pa.Table, msg_id: Any, ends: Sequence[Any]
) -> pa.ListArray:
    """Return the pairs of moments of the chosen copies, null for others.

    `rows` are reduced rows of copies in the order of `groups`; `msg_id` are the numbers of the copies' messages, `ends`
    moments that are not in the rows.
    """
    copies = np.flatnonzero(chosen)
    mine = np.flatnonzero(chosen[groups.of_rows])
    of_copy, dead = groups.of_rows[mine], rows["died"][mine]
    owners, moments = _of_messages(copies, messages, msg_id)
    owner = np.concatenate([of_copy, of_copy, owners, *(copies for _ in ends)])
    single = np.concatenate([dead, moments, *(each[copies] for each in ends)])
    first, last = (np.append(rows[name][mine], single) for name in ("first", "last"))
    there = (first >= 0) & (first < NEVER)
    owner, first, last = owner[there], first[there], last[there]
    order = np.lexsort((last, first, owner))
    pairs = np.stack([first[order], last[order]], axis=1).reshape(-1)
    offsets = 2 * np.searchsorted(owner[order], np.arange(len(chosen) + 1))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(pairs), mask=pa.array(~chosen))


def _of_messages(copies: Any, messages: pa.Table, msg_id: Any) -> tuple[Any, Any]:
    """Return the moments of the messages of some copies, and the copies that they are of."""
    numbers = messages.column("msg_id").to_numpy()
    wanted = np.flatnonzero(np.isin(numbers, msg_id[copies]))
    order = np.argsort(msg_id[copies], kind="stable")
    begin, end = (np.searchsorted(msg_id[copies][order], numbers[wanted], side=side) for side in ("left", "right"))
    times = end - begin
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    owners = copies[order[np.repeat(begin, times) + within]]
    columns = [np.repeat(messages.column(name).to_numpy()[wanted], times) for name in OF_MESSAGES]
    return np.tile(owners, len(columns)), np.concatenate(columns)
