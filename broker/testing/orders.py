"""Every order of a test by its name: the same by HTTP, over the administration socket and on the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from broker.testing.expectations import COUNTS, EVENT_ARGUMENTS, number_of
from broker.testing.faults.fault_table import table_shown
from broker.testing.request_arguments import RequestArguments
from broker.testing.time_control import STEP_SECONDS_MAX, time_of

if TYPE_CHECKING:
    from broker.testing.control import Testing


class Order(NamedTuple):
    """What is carried out, and the names of the arguments that it takes; None where it looks at them itself."""

    carry_out: Callable[[Testing, RequestArguments], Awaitable[object]]
    arguments: tuple[str, ...] | None = ()


async def show_status(testing: Testing, arguments: RequestArguments) -> object:
    """What was ordered and holds at this moment."""
    return testing.status()


async def show_clock(testing: Testing, arguments: RequestArguments) -> object:
    """The broker's time."""
    return testing.time.show()


async def stop_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Have the clock stand still."""
    await testing.time.stop()
    return testing.time.show()


async def start_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Have the clock go on."""
    await testing.time.start()
    return testing.time.show()


async def step_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Let `seconds` pass; with `heartbeats` for clients, too."""
    seconds, heartbeats = arguments.number("seconds", STEP_SECONDS_MAX), arguments.flag("heartbeats")
    await testing.time.step(seconds, heartbeats=bool(heartbeats))
    return testing.time.show()


async def set_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Make it the time `to`; with `heartbeats` what passes until then passes for clients, too."""
    await testing.time.set(time_of(arguments, "to"), heartbeats=bool(arguments.flag("heartbeats")))
    return testing.time.show()


async def reset(testing: Testing, arguments: RequestArguments) -> object:
    """Have nothing left of the test before."""
    return await testing.reset()


async def show_history(testing: Testing, arguments: RequestArguments) -> object:
    """What has happened to messages."""
    return testing.expectations.history(arguments)


async def clear_history(testing: Testing, arguments: RequestArguments) -> object:
    """Forget what has happened so far."""
    testing.history.clear()
    return {"last": testing.history.last}


async def expect(testing: Testing, arguments: RequestArguments) -> object:
    """Wait for events, or for a state of a queue."""
    return await testing.expectations.expect(arguments)


async def idle(testing: Testing, arguments: RequestArguments) -> object:
    """Wait until nothing is left to do."""
    return await testing.expectations.idle(arguments)


async def show_faults(testing: Testing, arguments: RequestArguments) -> object:
    """The faults that are ordered, and how often each has happened."""
    return [order.shown() for order in testing.faults.orders.values()]


async def show_fault_table(testing: Testing, arguments: RequestArguments) -> object:
    """The faults that can be ordered."""
    return table_shown()


async def order_fault(testing: Testing, arguments: RequestArguments) -> object:
    """Have a fault happen."""
    return testing.faults.order(arguments.all()).shown()


async def lift_fault(testing: Testing, arguments: RequestArguments) -> object:
    """Have a fault happen no more."""
    testing.faults.lift(int(number_of(arguments, "id", 0)))
    return {"lifted": 1}


async def lift_faults(testing: Testing, arguments: RequestArguments) -> object:
    """Have no fault happen any more."""
    return {"lifted": testing.faults.lift_all()}


async def show_snapshots(testing: Testing, arguments: RequestArguments) -> object:
    """The snapshots that there are."""
    return testing.snapshots.names()


async def save_snapshot(testing: Testing, arguments: RequestArguments) -> object:
    """Save definitions and messages under a name."""
    return await testing.snapshots.save(arguments.text("name"))


async def restore_snapshot(testing: Testing, arguments: RequestArguments) -> object:
    """Have what was saved under a name, and nothing else."""
    return await testing.snapshots.restore(testing.snapshots.path(arguments.text("name")))


async def delete_snapshot(testing: Testing, arguments: RequestArguments) -> object:
    """Delete what was saved under a name."""
    testing.snapshots.delete(arguments.text("name"))
    return {"deleted": 1}


async def restore_backup(testing: Testing, arguments: RequestArguments) -> object:
    """Have what the backup in a directory holds, and nothing else."""
    return await testing.snapshots.restore(Path(arguments.text("directory")))


ORDERS = {
    "status": Order(show_status),
    "clock": Order(show_clock),
    "clock/stop": Order(stop_clock),
    "clock/start": Order(start_clock),
    "clock/step": Order(step_clock, ("seconds", "heartbeats")),
    "clock/set": Order(set_clock, ("to", "heartbeats")),
    "reset": Order(reset),
    "faults": Order(show_faults),
    "faults/table": Order(show_fault_table),
    "faults/order": Order(order_fault, None),
    "faults/lift": Order(lift_fault, ("id",)),
    "faults/lift-all": Order(lift_faults),
    "snapshots": Order(show_snapshots),
    "snapshots/save": Order(save_snapshot, ("name",)),
    "snapshots/restore": Order(restore_snapshot, ("name",)),
    "snapshots/delete": Order(delete_snapshot, ("name",)),
    "restore": Order(restore_backup, ("directory",)),
    "history": Order(show_history, (*EVENT_ARGUMENTS, "limit", "bodies")),
    "history/clear": Order(clear_history),
    "expect": Order(expect, (*EVENT_ARGUMENTS, *COUNTS, "count", "exactly", "timeout_seconds")),
    "idle": Order(idle, ("quiet_milliseconds", "timeout_seconds")),
}
