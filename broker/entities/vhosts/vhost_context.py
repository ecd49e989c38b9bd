"""The collaborators that all virtual hosts of a broker share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import NamedTuple

from broker.entities.arguments.personality import Personality
from broker.entities.arguments.queue_types import QueueType
from broker.entities.exchanges.event_exchange import EventExchange
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_store import MessageSource, StorePlace
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.entities.scheduling.background_work import BackgroundWork
from broker.entities.scheduling.cache_epoch import CacheEpoch
from broker.entities.scheduling.invariants import Invariants
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.entities.scheduling.timers import Timers
from broker.entities.scheduling.turn import Turn
from broker.entities.statistics.counters import QueueCounters
from broker.entities.statistics.totals import BrokerStatistics
from broker.entities.vhosts.durable_definitions import DurableDefinitions
from storage.batch import LaneState


class VHostContext(NamedTuple):
    """The collaborators of a virtual host. `now` and `soon` are the clock's: see `Clock`."""

    turn: Turn
    timers: Timers
    window: MemoryWindow
    boot: int
    now: Callable[[], int]
    soon: Callable[[], int]
    batches: PendingBatches
    messages: MessageSource
    definitions: DurableDefinitions
    transient_ids: count[int]
    body_ids: count[int]
    queues_by_id: dict[int, Queue]
    chance: Random
    cache_epoch: CacheEpoch
    """Invalidates cached permissions and routes."""
    recorder: Recorder | None
    """Records events for the event log; None if it is off."""
    invariants: Invariants | None
    """Checks structures changed in this turn; None unless invariants are checked."""
    background_work: BackgroundWork
    statistics: BrokerStatistics
    event_exchange: EventExchange | None
    """Publishes events to amq.rabbitmq.event; None if that is off."""
    personality: Personality
    default_queue_type: str
    """The queue type of a virtual host that has none of its own; empty: classic, without an argument."""
    watch: RehearsalWatch | None = None
    """Counts what a later series of RabbitMQ would do differently; None unless that is rehearsed."""

    def store_place(self, queue_type: QueueType, queue_id: int, states: Mapping[int, LaneState]) -> StorePlace:
        """Return the place of a queue in the message store, with new counters."""
        counters = QueueCounters(self.statistics.queues[queue_type.name])
        return StorePlace(self.batches, self.messages, queue_id, counters, states)
