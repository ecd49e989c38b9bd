"""Mistakes in who has to wait while memory or the disk are short."""

from __future__ import annotations

from typing import Any

from broker.entities.scheduling.alarms import Alarms
from broker.server.committer import Committer
from broker.session.channel.channel import Channel
from tests.planted.mistake import Mistake, Patch, Process, Simulation


def alarm_holds_nobody(patch: Patch) -> None:
    """Raise the alarm in the log alone."""
    change = Alarms.set

    def change_nothing(alarms: Alarms, resource: str, *, short: bool) -> None:
        change(alarms, resource, short=short)
        alarms.raised = False

    patch(Alarms, "set", change_nothing)


def alarm_holds_commits(patch: Patch) -> None:
    """Write nothing while an alarm lasts, acknowledgements neither."""
    start = Committer.start_commit

    def start_unless_short(committer: Committer, *, lazily: bool = False) -> None:
        if not committer._broker.alarms.raised:
            start(committer, lazily=lazily)

    patch(Committer, "start_commit", start_unless_short)


def alarm_holds_acknowledgements(patch: Patch) -> None:
    """Have what frees memory wait until there is memory."""
    handle = Channel.handle

    def wait(channel: Channel, key: int, action: Any, size: int, *, may_pass: bool = False) -> None:
        handle(channel, key, action, size)

    patch(Channel, "handle", wait)


FAULTS = Process("tests/durability/faults/test_promises.py")

MISTAKES = {
    "alarm holds nobody": Mistake("I7", alarm_holds_nobody, (FAULTS, Simulation(5))),
    "alarm holds commits": Mistake("I7", alarm_holds_commits, (FAULTS,)),
    "alarm holds acknowledgements": Mistake("I7", alarm_holds_acknowledgements, (Simulation(2),)),
}
