"""Orders of tests, on their way to `broker.testing`, which is there only where the settings say so."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.protocol import AdministrationError

ON = "[testing] is enabled: tests may stop the clock, order faults and delete everything in this broker"
NOT_MET = "not_met"
"""The kind of the error when something did not come about in time."""
OFF = (
    "this broker takes no orders of tests: start it with `enabled = true` in section [testing] of its settings,"
    " and never where its messages matter"
)


async def testing(administration: Administration, arguments: Arguments) -> object:
    """Carry out the order of a name with its arguments; its answer. Raises AdministrationError `refused`."""
    if administration.testing is None:
        raise AdministrationError("refused", OFF)
    return await administration.testing.carry_out(arguments.text("order"), arguments.table("arguments"))
