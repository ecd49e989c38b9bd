"""The broker: virtual hosts, users, limits, parameters and their shared collaborators. No I/O, nothing awaits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from broker.entities.arguments.personality import DEFAULT, Personality
from broker.entities.exchanges.event_exchange import INTERNAL, EventExchange, EventSettings
from broker.entities.node.parameters import Parameters
from broker.entities.node.user_limits import UserLimits
from broker.entities.node.users import Users
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_store import MessageSource
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.entities.scheduling.alarms import Alarms
from broker.entities.scheduling.background_work import BackgroundWork
from broker.entities.scheduling.cache_epoch import CacheEpoch
from broker.entities.scheduling.clock import Clock
from broker.entities.scheduling.invariants import Invariants
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.entities.scheduling.timers import Timers
from broker.entities.scheduling.turn import Turn
from broker.entities.statistics.totals import BrokerStatistics
from broker.entities.vhosts.durable_definitions import DurableDefinitions
from broker.entities.vhosts.vhost import VHost, new_transient_ids
from broker.entities.vhosts.vhost_context import VHostContext
from storage.batch import SealedBatch


class BrokerSettings(NamedTuple):
    """Settings of the entities, taken from the configuration."""

    window: MemoryWindow
    batch_bytes_max: int
    lazy_bytes_max: int
    check_invariants: bool = False
    personality: Personality = DEFAULT
    default_queue_type: str = ""
    """The queue type of virtual hosts without one of their own; empty: classic, without an argument."""


class Pace(NamedTuple):
    """Limits on the length of a turn. `wake` is called when a timer is due earlier than all others."""

    wake: Callable[[], None]
    deliver_seconds_max: float = inf
    """Time for which queues deliver at the end of one turn."""
    timers_seconds_max: float = inf
    """Time for which due timers run in one turn."""


class Broker:
    """All entities, by name.

    `chance` is the source of randomness, for exchanges that choose a binding by chance. `recorder` is None if the event
    log is off, `events` if the event exchange is, `watch` if no later series is rehearsed. `disk_free` returns the free
    bytes of the disk.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        messages: MessageSource,
        definitions: DurableDefinitions,
        boot: int,
        pace: Pace,
        chance: Random | None = None,
        recorder: Recorder | None = None,
        disk_free: Callable[[], float] = lambda: inf,
        events: EventSettings | None = None,
        watch: RehearsalWatch | None = None,
    ) -> None:
        self.clock = clock
        self._disk_free = disk_free
        self.boot = boot
        self.personality = settings.personality
        self.default_queue_type = settings.default_queue_type
        self.recorder = recorder
        self.watch = watch
        self.invariants = Invariants() if settings.check_invariants else None
        self.turn = Turn(pace.deliver_seconds_max, self.invariants)
        self.timers = Timers(pace.wake, pace.timers_seconds_max)
        self.background_work = BackgroundWork(self.timers, clock.soon, pace.timers_seconds_max)
        self.alarms = Alarms()
        self.cache_epoch = CacheEpoch()
        self.users = Users(self.cache_epoch)
        self.user_limits = UserLimits()
        self.parameters = Parameters()
        self.batches = PendingBatches(settings.batch_bytes_max, settings.lazy_bytes_max, recorder)
        self.definitions = definitions
        self.vhosts: dict[str, VHost] = {}
        # By the ids in batches, so that `stored` reaches queues and delay queues without asking virtual hosts.
        self.queues_by_id: dict[int, Queue] = {}
        self.statistics = BrokerStatistics()
        self.event_exchange = None if events is None else self._new_event_exchange(events)
        self._context = self._new_context(settings, messages, chance or Random())

    def _new_context(self, settings: BrokerSettings, messages: MessageSource, chance: Random) -> VHostContext:
        """Return the collaborators that all virtual hosts share."""
        return VHostContext(
            self.turn,
            self.timers,
            settings.window,
            self.boot,
            self.clock.now,
            self.clock.soon,
            self.batches,
            messages,
            self.definitions,
            new_transient_ids(),
            count(1),
            self.queues_by_id,
            chance,
            self.cache_epoch,
            self.recorder,
            self.invariants,
            self.background_work,
            self.statistics,
            self.event_exchange,
            settings.personality,
            self.default_queue_type,
            self.watch,
        )

    def _new_event_exchange(self, events: EventSettings) -> EventExchange:
        return EventExchange(
            events,
            self.boot,
            self.clock.now,
            self.timers,
            self.batches,
            self.alarms,
            lambda: self.vhosts[events.vhost].routing if events.vhost in self.vhosts else None,
        )

    def begin_boot(self, boot: int) -> None:
        """Use another boot number for virtual hosts made from now on. There must be none yet."""
        assert not self.vhosts, "there are queues with positions of the boot before"
        self.boot = boot
        self._context = self._context._replace(boot=boot)

    def free_disk_bytes(self) -> float:
        """Return the free bytes of the disk, less those of batches that are not stored yet."""
        return self._disk_free() - self.batches.unstored_bytes

    def stored(self, batch: SealedBatch) -> None:
        """Tell queues and waiters that a batch is on disk."""
        for lane in batch.lanes:
            queue = self.queues_by_id.get(lane.queue_id)
            if queue is not None and lane.puts:
                queue.stored(lane.lane, lane.puts[-1][0])
                queue.counters.disk_writes += len(lane.puts)
                queue.counters.of_type.disk_writes += len(lane.puts)
        for waiter in (*batch.waiters, *batch.removal_waiters):
            waiter.stored(batch.number)
        self.batches.stored(batch)
        if self.background_work.works:
            self.background_work.disk_moved()

    def add_vhost(self, name: str) -> VHost:
        """Return the virtual host of this name; make it, with its predeclared exchanges, if there is none."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = self.vhosts[name] = VHost(name, self._context)
        return vhost

    def remove_vhost(self, name: str, by: str = INTERNAL) -> None:
        """Remove a virtual host whose definitions are deleted on disk; its queues are deleted in the background."""
        # Out of the table first: no name in it can be found while its queues are deleted in steps.
        vhost = self.vhosts.pop(name)
        self.statistics.vhost_ended(vhost.statistics)
        self.background_work.begin(vhost.end(by))
        self.users.forget_vhost(name)
        self.user_limits.vhosts.pop(name, None)
        self.parameters.forget_vhost(name)
