"""The table of all test requests by name: the same by HTTP, over the administration socket and on the command line."""

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


class KnownRequest(NamedTuple):
    """The function that carries a request out, and the names of its arguments; None if it checks them itself."""

    carry_out: Callable[[Testing, RequestArguments], Awaitable[object]]
    arguments: tuple[str, ...] | None = ()


async def show_status(testing: Testing, arguments: RequestArguments) -> object:
    """Return clock, faults, history and snapshots."""
    return testing.status()


async def show_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Return the broker's time."""
    return testing.time.show()


async def stop_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Stop the clock."""
    await testing.time.stop()
    return testing.time.show()


async def start_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Start the clock again."""
    await testing.time.start()
    return testing.time.show()


async def step_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Advance the clock by `seconds`; with `heartbeats` they count as silence of clients."""
    seconds, heartbeats = arguments.number("seconds", STEP_SECONDS_MAX), arguments.flag("heartbeats")
    await testing.time.step(seconds, heartbeats=bool(heartbeats))
    return testing.time.show()


async def set_clock(testing: Testing, arguments: RequestArguments) -> object:
    """Set the clock to `to`; with `heartbeats` the time until then counts as silence of clients."""
    await testing.time.set(time_of(arguments, "to"), heartbeats=bool(arguments.flag("heartbeats")))
    return testing.time.show()


async def reset(testing: Testing, arguments: RequestArguments) -> object:
    """Reset the broker."""
    return await testing.reset()


async def show_history(testing: Testing, arguments: RequestArguments) -> object:
    """Return events of messages."""
    return testing.expectations.history(arguments)


async def clear_history(testing: Testing, arguments: RequestArguments) -> object:
    """Forget the events so far."""
    testing.history.clear()
    return {"last": testing.history.last}


async def expect(testing: Testing, arguments: RequestArguments) -> object:
    """Wait for events, or for a state of a queue."""
    return await testing.expectations.expect(arguments)


async def idle(testing: Testing, arguments: RequestArguments) -> object:
    """Wait until nothing is left to do."""
    return await testing.expectations.idle(arguments)


async def show_faults(testing: Testing, arguments: RequestArguments) -> object:
    """Return the requested faults, and how often each has happened."""
    return [fault.shown() for fault in testing.faults.requested.values()]


async def show_fault_table(testing: Testing, arguments: RequestArguments) -> object:
    """Return the table of faults that can be requested."""
    return table_shown()


async def order_fault(testing: Testing, arguments: RequestArguments) -> object:
    """Request a fault."""
    return testing.faults.request(arguments.all()).shown()


async def lift_fault(testing: Testing, arguments: RequestArguments) -> object:
    """Lift a fault."""
    testing.faults.lift(int(number_of(arguments, "id", 0)))
    return {"lifted": 1}


async def lift_faults(testing: Testing, arguments: RequestArguments) -> object:
    """Lift all faults."""
    return {"lifted": testing.faults.lift_all()}


async def show_snapshots(testing: Testing, arguments: RequestArguments) -> object:
    """Return the names of the snapshots."""
    return testing.snapshots.names()


async def save_snapshot(testing: Testing, arguments: RequestArguments) -> object:
    """Save definitions and messages under a name."""
    return await testing.snapshots.save(arguments.text("name"))


async def restore_snapshot(testing: Testing, arguments: RequestArguments) -> object:
    """Restore a snapshot: all else is deleted."""
    return await testing.snapshots.restore(testing.snapshots.path(arguments.text("name")))


async def delete_snapshot(testing: Testing, arguments: RequestArguments) -> object:
    """Delete a snapshot."""
    testing.snapshots.delete(arguments.text("name"))
    return {"deleted": 1}


async def restore_backup(testing: Testing, arguments: RequestArguments) -> object:
    """Restore the backup in a directory: all else is deleted."""
    return await testing.snapshots.restore(Path(arguments.text("directory")))


REQUESTS = {
    "status": KnownRequest(show_status),
    "clock": KnownRequest(show_clock),
    "clock/stop": KnownRequest(stop_clock),
    "clock/start": KnownRequest(start_clock),
    "clock/step": KnownRequest(step_clock, ("seconds", "heartbeats")),
    "clock/set": KnownRequest(set_clock, ("to", "heartbeats")),
    "reset": KnownRequest(reset),
    "faults": KnownRequest(show_faults),
    "faults/table": KnownRequest(show_fault_table),
    "faults/order": KnownRequest(order_fault, None),
    "faults/lift": KnownRequest(lift_fault, ("id",)),
    "faults/lift-all": KnownRequest(lift_faults),
    "snapshots": KnownRequest(show_snapshots),
    "snapshots/save": KnownRequest(save_snapshot, ("name",)),
    "snapshots/restore": KnownRequest(restore_snapshot, ("name",)),
    "snapshots/delete": KnownRequest(delete_snapshot, ("name",)),
    "restore": KnownRequest(restore_backup, ("directory",)),
    "history": KnownRequest(show_history, (*EVENT_ARGUMENTS, "limit", "bodies")),
    "history/clear": KnownRequest(clear_history),
    "expect": KnownRequest(expect, (*EVENT_ARGUMENTS, *COUNTS, "count", "exactly", "timeout_seconds")),
    "idle": KnownRequest(idle, ("quiet_milliseconds", "timeout_seconds")),
}
