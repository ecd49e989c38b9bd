"""A world: one broker with its data, its clients, time, chance and mishaps; all of it from one seed.

Things happen one after the other, at moments of virtual time: a client acts, a batch reaches the disk, a timer is due,
something goes wrong. After each the promises are looked at. Everybody who leaves something to chance has a generator
of their own, so that a run without one of the clients is much the same for the others (see `shrink.py`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import traceback
from collections import Counter, deque
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from random import Random

from broker.wire import methods
from broker.wire.frames import HEARTBEAT
from storage.definitions.definition_rows import PolicyRow, Put, delete
from storage.definitions.definition_store import DefinitionsFull
from storage.storage_errors import StoreFull
from tests.simulation import accounting
from tests.simulation.acts import ACTS, LARGE_MAX, MODES, Act
from tests.simulation.copies import Broken, Place
from tests.simulation.policy_rules import build_policies
from tests.simulation.promises import Promises
from tests.simulation.routing_rules import BINDING_KEYS, DELAYED, matches
from tests.simulation.simulated_client import Channel, Client
from tests.simulation.world import final_count, mishaps, opening_declares
from tests.simulation.world.disk import PAGE_BYTES, Disk
from tests.simulation.world.memory import Memory, check_memory
from tests.simulation.world.patience import MINUTE, SPARE_BYTES, Patience
from tests.simulation.world.process import Process
from tests.simulation.world.small_world import governing
from tests.simulation.world.topology_of_seed import CONSUMER_TIMEOUT, LATE_QUEUE, build
from tests.simulation.world.virtual_time import Agenda, Times

CLIENTS = 6
BEAT = 60_000
CHOICES = [act for _, act in ACTS]
WEIGHTS = list(accumulate(weight for weight, _ in ACTS))
CHANNELS = 2
AUDIT_EVENTS = 4
EVENTS_MAX = 20_000
"""Most events within ten minutes: three times the number in any run that was counted."""
TRACE = 30
HOUR = 3_600_000
SHARED_MEMORY = Path("/dev/shm")


class Failed(AssertionError):
    """A run has found something: its seed, the event, the last things that happened, and how to see it again."""


class World:
    """One run. `without` are the numbers of clients that stay away. `audited`: its events are logged, and judged."""

    def __init__(
        self,
        seed: int,
        hours: float,
        *,
        without: frozenset[int] = frozenset(),
        tell: Callable[[str], None] | None = None,
        audited: bool = False,
    ) -> None:
        self.seed = seed
        self.hours = hours
        self.without = without
        self._tell = tell
        self.times = Times()
        self.agenda = Agenda(self.times)
        self.directory = Path(
            tempfile.mkdtemp(prefix="leveret-sim-", dir=SHARED_MEMORY if SHARED_MEMORY.exists() else None)
        )
        self._events = self.directory / "events" if audited else None
        self.recipes = build(self.chance("town"))
        self.policies = build_policies(self.chance("policies"))
        self.promises = Promises(self.times, self.recipes, self.policies)
        self.promises.targets = self.targets
        self.disk = Disk(self.chance("disk"), self.directory / "data")
        self.memory = Memory()
        self.counts: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=TRACE)
        self.clients: dict[int, Client] = {}
        self.lull_until = 0
        self.calm = False
        """No client acts any more, nothing goes wrong."""
        self._digest = hashlib.sha256()
        self._number = 0
        self._lives = self._beats = 0
        self.down = True
        self.process: Process
        self.patience = Patience(self)
        self._pauses: list[tuple[int, int]] = []
        """From when to when there was one, in milliseconds of the monotonic clock."""
        self._counted_from = self._events_before = 0
        self._cramped_at = -1
        """Last moment without room on the disk for every message; milliseconds of the monotonic clock."""

    def chance(self, name: str) -> Random:
        """Somebody's own generator."""
        return Random(f"{self.seed}/{name}")

    @property
    def hash(self) -> str:
        """Hash that tells this run from another one."""
        return self._digest.hexdigest()[:16]

    def note(self, text: str) -> None:
        """Something has happened."""
        line = f"{self.times.now / 1000:.3f} #{self.promises.event} {text}"
        self._digest.update(line.encode())
        self.recent.append(line)
        if self._tell is not None:
            self._tell(line)

    def next_number(self) -> int:
        """A number that nothing else has."""
        self._number += 1
        return self._number

    # A run

    def run(self) -> None:
        """Live through all the hours, then see that nothing is missing. Raises Failed."""
        with governing(self.times, self.disk):
            try:
                self.begin()
                self.live()
                final_count.settle(self)
                self._judge()
            except Exception as error:
                raise Failed(self._report(error)) from error
            finally:
                self.clean()

    def _judge(self) -> None:
        if self._events is not None:
            from tests.simulation.world.audited_lives import judge  # few runs need Arrow, which takes long to import

            self.process.stop()
            self.counts.update(judge(self._events))

    def begin(self) -> None:
        """Start the broker and declare what there is; nobody acts yet."""
        self.start()
        opening_declares.declare_everything(self)

    def live(self) -> None:
        """Have clients act and things go wrong for all the hours."""
        for number in range(CLIENTS):
            if number not in self.without:
                self._come_alive(number, self.chance(f"client {number}"))
        self._beat()
        mishaps.begin(self)
        while self.times.now < self.hours * HOUR:
            self._event()

    def _come_alive(self, number: int, chance: Random) -> None:
        def act() -> None:
            if not self.calm:
                self.agenda.after(max(_pause(chance), self.lull_until - self.times.now), act)
                self.act(number, chance.choices(CHOICES, cum_weights=WEIGHTS)[0], chance)

        self.agenda.after(chance.randint(0, 100), act)

    def _event(self) -> None:
        self.begin_event()
        self.agenda.go_on()
        self._after_event()

    def begin_event(self) -> None:
        """Count an event. Raises Broken when more than EVENTS_MAX happen within ten minutes."""
        self.promises.event += 1
        if self.times.now >= self._counted_from + 10 * MINUTE:
            self._counted_from, self._events_before = self.times.now, self.promises.event
        if self.promises.event > self._events_before + EVENTS_MAX:
            raise Broken(f"more than {EVENTS_MAX} things happen within ten minutes: something has no end")

    def _after_event(self) -> None:
        if self.down:
            self.patience.look()
            return
        self._sync()
        self.patience.look()
        for client in self.clients.values():
            self._release_held(client)
            if client.line.stuck:
                self.agenda.after(0, client.line.pump)
        self.promises.settle()
        if self.promises.event % AUDIT_EVENTS == 0:
            self.audit()

    def _sync(self) -> None:
        if self.down:
            return
        raised = bool(self.process.short)
        if raised != bool(self.promises.alarm):
            self.promises.alarm = self.next_number() if raised else 0
        self._look_for_room()
        if self.process.no_room:
            self.promises.disturbed()
        if self.process.broker.batches.crowded:
            self.promises.disk_is_behind()
        if self.process.broker.batches.full:
            self.promises.disk_is_far_behind()
        self.look()

    def _look_for_room(self) -> None:
        if self.disk.free - self.process.broker.batches.unstored_bytes < LARGE_MAX + SPARE_BYTES:
            self._cramped_at = self.times.now

    def look(self) -> None:
        """Take note of the queues that exist."""
        queues = self.process.broker.vhosts["/"].queues.values()
        self.promises.look_at_policies(self.policies_there())
        self.promises.look({queue.store.queue_id: queue.name for queue in queues})

    def policies_there(self) -> frozenset[str]:
        """The names of the policies that hold now."""
        policies = self.process.broker.vhosts["/"].policy_application.policies
        return frozenset((*policies.of(operator=False), *policies.of(operator=True)))

    def change_policy(self, name: str) -> None:
        """Set a policy, or clear it if it is set; nothing, while that is on its way already."""
        told, policy = self.promises.told, self.policies[name]
        before = told.pop(name, None)
        if before is None:
            return
        self.note(f"policy {name} is {'cleared' if before else 'set'}")
        rest = name, policy.pattern, "classic_queues", json.dumps(policy.definition), policy.priority, policy.operator
        change = (
            delete(PolicyRow, vhost="/", name=name, operator=policy.operator) if before else Put(PolicyRow("/", *rest))
        )

        def answered() -> None:
            told[name] = not before
            self.look()  # what follows from it comes in the same event

        self.process.change(change, answered)

    def _check_policies(self) -> None:
        """Policies set and cleared are so after a start; one on its way is one or the other."""
        there = self.policies_there()
        for name, was_set in self.promises.told.items():
            if was_set != (name in there):
                raise Broken(f"policy {name} is {'not there' if was_set else 'back'}")
        self.promises.told = {name: name in there for name in self.policies}

    def _release_held(self, client: Client) -> None:
        for channel in client.channels.values():
            if not channel.held:
                continue
            theirs = client.line.connection.channels.get(channel.number)
            if theirs is not None and not theirs.held and not theirs.closing:
                channel.release_held()
            elif not self.process.short:
                channel.obey_some_held()

    def audit(self) -> None:
        """Count everything. In a pause nothing is done in time."""
        if self.process.paused:
            return
        queues = self.process.broker.vhosts["/"].queues.values()
        accounting.audit(self.promises, {queue.store.queue_id: queue for queue in queues})
        self.patience.check()
        for client in self.clients.values():
            for channel in client.channels.values():
                since = max(min(channel.out_since.values(), default=self.times.now), channel.rolled_back_at)
                if self._is_overdue(since) and not channel.late and not channel.closing:
                    raise Broken(f"{client.name}.{channel.number} has held a message for too long")

    def _is_overdue(self, since: int) -> bool:
        """The broker must have noticed that a message has been out since then, which it looks for twice a minute.

        Its time begins with the first look, and that comes after a pause which began before it.
        """
        if self.times.now <= since + CONSUMER_TIMEOUT + 3 * MINUTE:
            return False
        seen = max([since, *(end for begin, end in self._pauses if begin - MINUTE <= since <= end)])
        resumed = max([0, *(end for _, end in self._pauses)])
        return self.times.now > max(seen + CONSUMER_TIMEOUT, resumed) + 3 * MINUTE

    # The broker

    def start(self) -> None:
        """Start the broker, on what the last one has left."""
        self._lives += 1
        seed = f"{self.seed}/life {self._lives}"
        self.process = Process(
            self.directory / "data",
            self.agenda,
            self.disk,
            self.memory,
            seed,
            lambda: self.kill("crash in a commit"),
            self._events,
        )
        self.promises.begin()  # not before it has started: what its predecessor went by counts until then
        self.promises.batch = lambda: self.process.batch
        self.promises.behind = lambda: self.process.broker.batches.full
        self.promises.short = lambda: bool(self.process.short)
        self.down = False

    def pause(self, milliseconds: int) -> None:
        """The process does nothing for this time; clients go on."""
        self.counts["pause"] += 1
        self.note(f"a pause of {milliseconds} ms")
        process, process.paused, began = self.process, True, self.times.now

        def go_on() -> None:
            if process.alive:
                self.note("the process goes on")
                self.promises.go_on()
                self._pauses.append((began, self.times.now))
                process.go_on()

        self.agenda.after(milliseconds, go_on)

    def _beat(self) -> None:
        """Clients that are not silent send heartbeats; now and then somebody counts what is in memory."""
        self._beats += 1
        if self._beats % 30 == 0 and self.patience.nothing_disturbs():
            check_memory(self)
        for client in self.clients.values():
            if not (client.gone or client.closing or client.busy or client.silent) and client.opened:
                client.line.send(HEARTBEAT)
        self.agenda.after(BEAT, self._beat)

    def _check_there_was_no_room(self) -> None:
        """The broker did not start because of the disk: it had the ballast's room no more, and there was no other."""
        if self.disk.free >= 16 * PAGE_BYTES:
            raise Broken(f"the broker does not start with {self.disk.free} bytes free")

    def kill(self, why: str, downtime: int = 500) -> None:
        """The process is gone; after a while another one is started."""
        self.counts[why] += 1
        self.note(why)
        for client in self.clients.values():
            client.line.lose()
        self.process.kill()
        self._come_back(self.process.writer.committed, downtime)

    def stop(self, downtime: int) -> None:
        """The broker is stopped in order, and started again."""
        self.counts["stop"] += 1
        self.note("stop")
        for place in self.promises.places.values():
            place.ending |= place.recipe.auto_delete and bool(place.takers)
        everything = self.process.stop()
        for client in self.clients.values():
            client.line.lose()
        self._come_back(accounting.EVERYTHING if everything else self.process.writer.committed, downtime)

    def _come_back(self, committed: int, downtime: int) -> None:
        self.down = True
        for client in self.clients.values():
            client.gone = True
            for channel in client.channels.values():
                channel.drop_held()
        self.clients.clear()

        def start() -> None:
            try:
                self.start()
            except (StoreFull, DefinitionsFull):
                self._check_there_was_no_room()
                self._come_back_in(5_000, start)
                return
            found = {queue.store.queue_id: queue.name for queue in self.process.broker.vhosts["/"].queues.values()}
            self.note(f"started, with {sorted(found.values())}")
            self._check_policies()
            self.promises.look_at_policies(self.policies_there())
            accounting.survive(self.promises, found, committed)
            self._check_bindings()
            self.audit()

        self._come_back_in(downtime, start)

    def _come_back_in(self, downtime: int, start: Callable[[], None]) -> None:
        self.lull_until = max(self.lull_until, self.times.now + downtime)
        self.agenda.after(downtime, start)

    def _check_bindings(self) -> None:
        there = {(place.number, exchange, key) for exchange in BINDING_KEYS for place, key in self._bindings(exchange)}
        durable = {binding for binding in self.promises.bound if self.promises.places[binding[0]].recipe.durable}
        if not durable <= there:
            raise Broken(f"bindings are lost: {sorted(durable - there)}")
        self.promises.bound &= durable

    def targets(self, exchange: str, key: str) -> list[Place]:
        """The queues that a publish reaches now."""
        self.look()
        if exchange == DELAYED:
            return [self.promises.named[LATE_QUEUE]]
        if not exchange:
            return [self.promises.named[key]] if key in self.promises.named else []
        found = [place for place, binding_key in self._bindings(exchange) if matches(exchange, binding_key, key)]
        return list(dict.fromkeys(found))

    def _bindings(self, exchange: str) -> list[tuple[Place, str]]:
        """Return the present bindings of an exchange: existence is looked up, matching is not."""
        bindings = self.process.broker.vhosts["/"].exchanges[exchange].bindings
        return [(self.promises.named[binding.destination.name], binding.key) for binding in bindings]

    # Clients

    def connect(self, number: int) -> Client:
        """A client connects, and opens its channels."""
        self.note(f"client {number} connects")
        client = self.clients[number] = Client(self, f"c{number}")
        return client

    def act(self, number: int, act: Act, chance: Random) -> None:
        """Have a client do something, or connect if it is not there."""
        if self.down:
            return
        client = self.clients.get(number)
        if client is None or client.gone:
            client = self.connect(number)
            for channel in range(1, CHANNELS + 1):
                client.open(channel, chance.choice(MODES))
            return
        chosen = client.channels.get(chance.randint(1, CHANNELS))
        if (
            chosen is not None
            and not chosen.closing
            and not client.busy
            and not client.closing
            and client.opened
            and not client.silent
        ):
            self.counts["acts"] += 1
            act(client, chosen, chance)

    def closed(
        self, client: Client, method: methods.ChannelClose | methods.ConnectionClose, channel: Channel | None = None
    ) -> None:
        """The broker has closed something: it must have had a reason."""
        text = method.reply_text
        if "shutdown" in text or (channel is not None and channel.at_fault and "unknown delivery tag" in text):
            return
        self._look_for_room()
        if channel is not None and "larger than the room" in text and self._cramped_at >= client.line.said_since:
            self.counts["too large"] += 1
            return
        if channel is not None and "partial tx completion" in text and channel.may_be_refused:
            self.counts["committed in part"] += 1
            return
        if channel is not None and "timed out" in text:
            oldest = min([self.times.now, *channel.out_since.values()])
            if self.times.now - oldest >= CONSUMER_TIMEOUT:
                self.counts["timed out"] += 1
                return
        raise Broken(f"{client.name} was closed: {text}")

    def now(self, action: Callable[[], None]) -> None:
        """Have something happen at once, as an event of its own."""
        self.agenda.after(0, action)
        self.wait(0)

    def wait(self, milliseconds: int) -> None:
        """Let things happen for a while."""
        until = self.times.now + milliseconds
        while self.agenda.next_due <= until:
            self._event()
        self.times.now = until

    def clean(self) -> None:
        """Leave nothing behind."""
        if not self.down and self.process.alive:
            self.process.end()
        shutil.rmtree(self.directory)

    def _report(self, error: BaseException) -> str:
        away = " --audited" * (self._events is not None)
        away += "".join(f" --without {number}" for number in sorted(self.without))
        command = f"python -m tests.simulation --seed {self.seed} --hours {self.hours:g}{away} --verbose"
        trace = "\n  ".join(self.recent)
        told = f"{type(error).__name__}: {error}"
        if not isinstance(error, Broken):
            told = "".join(traceback.format_exception(error))
        return f"seed {self.seed}, event {self.promises.event}: {told}\n  {trace}\n{command}"


def _pause(chance: Random) -> int:
    """Draw the milliseconds before a client's next act."""
    drawn = chance.random()
    if drawn < 0.8:
        return chance.randint(0, 20)
    return chance.randint(20, 1_500) if drawn < 0.995 else chance.randint(1_500, 60_000)
