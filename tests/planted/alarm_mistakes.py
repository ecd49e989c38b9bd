"""Mistakes in who has to wait while memory or the disk are short, and for what."""

from __future__ import annotations

from typing import Any

from broker.entities.scheduling.alarms import Alarms
from broker.process_memory import memory_used
from broker.server.commits import commit_thread
from broker.server.commits.commit_thread import CommitSteps
from broker.server.commits.committer import Committer
from broker.server.resource_alarms import ResourceWatch
from broker.server.server import Server
from broker.session.channel.channel import Channel
from storage import batch_removals
from storage.batch import SealedBatch
from tests.planted.mistake import Exhaustion, Patch, Process, Simulation, mistake

FAULTS = Process("tests/durability/faults/test_promises.py")
ENDS = "an alarm ends with its cause"


@mistake("I7", FAULTS, Simulation(1))
def alarm_holds_nobody(patch: Patch) -> None:
    """Raise the alarm in the log alone."""
    change = Alarms.set

    def change_nothing(alarms: Alarms, resource: str, *, short: bool) -> None:
        change(alarms, resource, short=short)
        alarms.raised = False

    patch(Alarms, "set", change_nothing)


@mistake("I7", FAULTS)
def alarm_holds_commits(patch: Patch) -> None:
    """Write nothing while an alarm lasts, acknowledgements neither."""
    start = Committer.start_commit

    def start_unless_short(committer: Committer, **how: bool) -> None:
        if not committer.broker.alarms.raised:
            start(committer, **how)

    patch(Committer, "start_commit", start_unless_short)


@mistake("I7", Simulation(15))
def alarm_holds_acknowledgements(patch: Patch) -> None:
    """Have what frees memory wait until there is memory."""
    handle = Channel.handle

    def wait(channel: Channel, key: int, action: Any, size: int, *, may_pass: bool = False) -> None:
        handle(channel, key, action, size)

    patch(Channel, "handle", wait)


@mistake("I7", Simulation(152))
def removals_wait_for_room(patch: Patch) -> None:
    """Keep what is acknowledged and purged with the publishes that the disk has no room for."""
    patch(CommitSteps, "_take_away", lambda steps, batch: batch)


@mistake("I12", Simulation(24))
def dead_message_gone_before_its_dead_letter(patch: Patch) -> None:
    """Commit, among what a full disk takes away, the end of messages whose dead letters wait for room."""
    removals, additions = batch_removals.removals, batch_removals.additions

    def ended(batch: SealedBatch) -> SealedBatch:
        return batch._replace(
            lanes=tuple(lane._replace(settled=tuple(lane.finished), moved=()) for lane in batch.lanes)
        )

    patch(commit_thread, "removals", lambda batch: removals(ended(batch)))
    patch(commit_thread, "additions", lambda batch: additions(ended(batch)))


@mistake(ENDS, Exhaustion(31, "alarms to end"))
def alarm_without_end(patch: Patch) -> None:
    """Raise alarms, and clear none."""
    change = Alarms.set

    def raise_only(alarms: Alarms, resource: str, *, short: bool) -> None:
        change(alarms, resource, short=short or alarms.is_raised(resource))

    patch(Alarms, "set", raise_only)


@mistake(ENDS, Exhaustion(31, "has no answers"))
def blocked_for_good(patch: Patch) -> None:
    """Take no publishes of blocked clients, although the alarm has ended."""
    patch(Server, "_unblock", lambda server: None)


@mistake(ENDS, Exhaustion(86, "alarms to end"))
def waiting_counts(patch: Patch) -> None:
    """Count what waits for the end of the alarm as memory that is in use."""
    patch(ResourceWatch, "_memory_taken", lambda watch: memory_used())


@mistake(ENDS, Simulation(2))
def disk_alarm_never_ends(patch: Patch) -> None:
    """Remember for ever that the store has met a full disk."""
    disk_full = ResourceWatch.disk_full
    patch(ResourceWatch, "disk_full", lambda watch, full: disk_full(watch, True))
