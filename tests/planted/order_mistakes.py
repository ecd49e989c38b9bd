"""Mistakes in the order of a queue's messages, their priorities, and in what is read back from the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from broker.entities.messages.message import QueuedMessage
from broker.entities.node.broker import Broker
from broker.entities.queues.due_messages import size_of
from broker.entities.queues.priority_queue import PriorityReadyMessages, PriorityStore
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.delayed_messages import DelayedMessages
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from broker.entities.queues.quorum.quorum_messages import ReturnedMessages
from broker.entities.queues.quorum.quorum_store import RetryLane
from broker.entities.queues.quorum.returning import Returning
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.queues.ready_section import ReadySection
from storage.messages.message_store import MessageStore
from tests.planted.mistake import BrokerCrashes, Model, Patch, mistake

BOOTS_MAX = 1 << 20


@mistake("I3", BrokerCrashes("after another start"))
def later_boots_first(patch: Patch) -> None:
    """Count positions downwards from start to start, so that what came later is read back first."""
    begin = Broker.__init__

    def begin_below(
        broker: Broker, settings: Any, clock: Any, source: Any, log: Any, boot: int, *others: Any, **named: Any
    ) -> None:
        begin(broker, settings, clock, source, log, BOOTS_MAX - boot, *others, **named)

    patch(Broker, "__init__", begin_below)


@mistake("order: what comes back takes its old place", Model("queue"))
def returned_to_the_end(patch: Patch) -> None:
    """Put what comes back behind everything else."""
    patch(ReadyMessages, "give_back", lambda ready, entries: [ready.append(entry) for entry in entries])


@mistake("look: changes nothing", Model("queue"))
def look_reads_back(patch: Patch) -> None:
    """Read back what is on disk only, into the queue, before a look."""
    look = ReadyMessages.look

    def look_behind(ready: ReadyMessages, section: ReadySection, level: int = 0) -> None:
        ready.peek()
        look(ready, section, level)

    patch(ReadyMessages, "look", look_behind)


@mistake("look: shows all messages", Model("queue"))
def look_into_memory_alone(patch: Patch) -> None:
    """Leave out of a look what is on disk only."""
    patch(ReadySection, "add_on_disk", lambda section, *place, **kind: None)


@mistake("look: in the order of delivery", Model("queue"))
def look_at_returned_last(patch: Patch) -> None:
    """Show what comes back behind everything else that is in memory."""

    def add_apart(section: ReadySection, returned: list[QueuedMessage], head: deque[QueuedMessage]) -> None:
        section.add(head)
        section.add(deque(reversed(returned)))

    patch(ReadySection, "add_returned", add_apart)


@mistake("priority: what comes back keeps it", Model("priorities"))
def returned_without_priority(patch: Patch) -> None:
    """Put what comes back among the messages without priority."""
    give_back = PriorityReadyMessages.give_back

    def give_back_lowest(ready_messages: PriorityReadyMessages, entries: Sequence[QueuedMessage]) -> None:
        for entry in entries:
            entry.level = 0
        give_back(ready_messages, entries)

    patch(PriorityReadyMessages, "give_back", give_back_lowest)


@mistake("priority: kept on disk", Model("priorities"))
def priority_lost_on_disk(patch: Patch) -> None:
    """Take what is read back as without priority."""
    read = PriorityStore.read

    def read_lowest(store: PriorityStore, queue: Queue, number: int, *place: Any) -> list[QueuedMessage]:
        entries = read(store, queue, number, *place)
        for entry in entries:
            entry.level = 0
        return entries

    patch(PriorityStore, "read", read_lowest)


@mistake("priority: highest first", Model("limits"))
def lowest_priority_first(patch: Patch) -> None:
    """Look at the messages of the lowest priority first, for limits and times to live."""

    def peek(ready_messages: PriorityReadyMessages) -> QueuedMessage | None:
        heads = (level.peek() for _, level in sorted(ready_messages._levels.items()))
        return next((head for head in heads if head is not None), None)

    patch(PriorityReadyMessages, "peek", peek)


@mistake("quorum queues: returned messages are in the order of their return", Model("quorum"))
def returned_in_publish_order(patch: Patch) -> None:
    """Sort the returned messages of a quorum queue as they were published."""
    extend = ReturnedMessages.extend

    def extend_sorted(returned: ReturnedMessages, entries: Sequence[QueuedMessage]) -> None:
        extend(returned, entries)
        returned._entries = deque(sorted(returned._entries, key=lambda entry: entry.position))

    patch(ReturnedMessages, "extend", extend_sorted)


@mistake("delayed retry: due messages are behind those returned before", Model("delayed retry"))
def due_before_returned(patch: Patch) -> None:
    """Put a message that was delayed and is due before the other returned ones."""

    def append_first(returned: ReturnedMessages, number: int) -> None:
        returned._rest.appendleft(number)
        returned.bytes += size_of(number)

    patch(ReturnedMessages, "append_due", append_first)


@mistake("delayed retry: counts survive", Model("delayed retry"))
def delayed_without_counts(patch: Patch) -> None:
    """Do not write the delivery counts of a delayed message."""
    put = RetryLane.put_delayed

    def put_without_counts(lane: RetryLane, entry: QuorumEntry, due: int) -> None:
        put(lane, entry, due)
        lane._open().deliveries.pop(entry.position)

    patch(RetryLane, "put_delayed", put_without_counts)


@mistake("delayed retry: a delayed message is in one place", Model("delayed retry"))
def delayed_and_not_settled(patch: Patch) -> None:
    """Leave a message that is delayed in its former place, too."""
    patch(Returning, "_settle", lambda returning, entries: len(entries))


@mistake("delayed retry: a purge drops them", Model("delayed retry"))
def purge_without_delayed(patch: Patch) -> None:
    """Keep delayed messages in a purge."""
    patch(DelayedMessages, "clear", lambda delayed: len(delayed))


@mistake("paging: memory keeps what is not on disk", Model("queue"))
def released_before_stored(patch: Patch) -> None:
    """Let messages go from memory that are not on disk yet."""
    append = ReadyMessages.append

    def append_stored(ready_messages: ReadyMessages, entry: QueuedMessage) -> None:
        append(ready_messages, entry)
        ready_messages.stored(entry.position)

    patch(ReadyMessages, "append", append_stored)


@mistake("paging: all is read back", Model("queue"))
def one_skipped_in_reading(patch: Patch) -> None:
    """Read a queue back from one position too late."""
    read = MessageStore.read

    def read_later(store: MessageStore, queue_id: int, lane: int, after: int, *limits: int) -> Any:
        return read(store, queue_id, lane, after + 1 if after else 0, *limits)

    patch(MessageStore, "read", read_later)
