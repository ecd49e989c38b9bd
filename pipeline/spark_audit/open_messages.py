"""Messages of which the log may still tell: the state of an audit that goes on keeps them, and forgets the others.

A message is over if each of its copies has ended, and nothing of it was heard in the last LATE_EVENTS events of its
node: a kill may undo an end that had not reached the disk, and answers and dead letters may be late, though not as late
as that. Findings are never forgotten. Of what is forgotten remain counts, the highest number in each boot, and the
highest position in each queue: what is heard of a lower one later is of a message that was over, or out of order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.audit.copy_verdicts import Judged, Node
from pipeline.audit.delivery_order import Overtakers
from pipeline.audit.log_coverage import Boot, moment
from pipeline.audit.log_timeline import boot_of
from pipeline.audit.reduction import NEVER, Reduced

LATE_EVENTS = 1 << 20
"""Events after which nothing more is heard of a message that is over, by far."""
HEARD = ("published", "confirmed", "answered", "arrived", "routed_last")
"""Columns of reduced messages with moments."""


def limit(boots: list[Boot], late: int) -> int:
    """Return the moment from which on the events of a node are late ones; 0 if none can be read.

    A boot counts behind its full record: until then it may recover a queue whose deletion a kill undid.
    """
    recorded = (boot for boot in boots if boot.snapshot is not None)
    return max((moment(boot.boot, max(boot.last - late, 0)) for boot in recorded), default=0)


def open_numbers(node: Node, found: Judged, until: int) -> Any:
    """Return the numbers of messages that are not over, ascending, `until` being the limit."""
    messages = node.messages
    numbers = messages.column("msg_id").to_numpy()
    heard = np.zeros(len(numbers), bool)
    for name in HEARD:
        moments = messages.column(name).to_numpy()
        heard |= (moments >= until) & (moments < NEVER)
    faults = found.rows.slice(found.rows.num_rows - found.messages).column("msg_id").to_numpy()
    return np.unique(np.concatenate([found.ends.number[found.ends.over >= until], numbers[heard], faults]))


def rows_of(node: Node, found: Judged, numbers: Any) -> Reduced:
    """Return the reduced rows of some messages."""
    copies = node.copies.filter(np.isin(found.ends.of_rows, numbers))
    messages = node.messages.filter(np.isin(node.messages.column("msg_id").to_numpy(), numbers))
    return Reduced(node.name, node.places, copies, messages, node.routes, [], [], [])


def closed_rows(found: Judged, numbers: Any) -> Any:
    """Return the rows of verdicts on all messages but some."""
    position, number = (found.rows.column(name).fill_null(-1).to_numpy() for name in ("position", "msg_id"))
    return found.rows.filter(~np.isin(np.where(number < 0, position, number), numbers))


def highest_closed(node: Node, found: Judged, numbers: Any) -> dict[int, int]:
    """Return the highest number of each boot, or position, that is forgotten if all messages but some are."""
    messages, positions = node.messages.column("msg_id").to_numpy(), node.copies.column("position").to_numpy()
    of_rows = found.ends.of_rows
    closed = np.append(messages[~np.isin(messages, numbers)], positions[~np.isin(of_rows, numbers)])
    boots = boot_of(closed)
    return {boot: int(closed[boots == boot].max()) for boot in np.unique(boots).tolist()}


def highest_deliveries(found: Judged, numbers: Any) -> Overtakers:
    """Return the delivery at the highest position of what is forgotten, in each queue and boot.

    Each later new delivery at a lower one is out of order.
    """
    place, boot, position, first, _ = found.deliveries
    closed = np.flatnonzero(~np.isin(found.ends.of_deliveries, numbers))
    order = closed[np.lexsort((position[closed], boot[closed], place[closed]))]
    last = np.ones(len(order), bool)
    last[:-1] = (place[order][1:] != place[order][:-1]) | (boot[order][1:] != boot[order][:-1])
    return Overtakers(*(column[order[last]] for column in (place, boot, position, first)))


def for_the_late(found: Judged) -> Overtakers:
    """Return a delivery that has overtaken each copy that was too late: so it stays a finding.

    What had overtaken it is forgotten; that was at a higher position, and sooner.
    """
    place, boot, position, _, last = (column[found.ends.overtaken] for column in found.deliveries)
    return Overtakers(place, boot, position + 1, last - 1)
