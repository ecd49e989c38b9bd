"""A world: one broker with its data, its clients, time, chance and mishaps; all of it from one seed.

Things happen one after the other, at moments of virtual time: a client acts, a batch reaches the disk, a timer is due,
something goes wrong. After each the promises are looked at. Everybody who leaves something to chance has a generator
of their own, so that a run without one of the clients is much the same for the others (see `shrink.py`).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import traceback
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from random import Random

from broker.wire import methods
from tests.simulation import accounting
from tests.simulation.acts import ACTS, MODES, Act
from tests.simulation.copies import Broken, Place
from tests.simulation.promises import Promises
from tests.simulation.simulated_client import Channel, Client
from tests.simulation.world import final_count, mishaps, opening_declares
from tests.simulation.world.process import Disk, Process
from tests.simulation.world.topology_of_seed import CONSUMER_TIMEOUT, DELAYED, FANOUT, LATE_QUEUE, build
from tests.simulation.world.virtual_time import Agenda, Times, governing

CLIENTS = 6
WEIGHTS = [weight for weight, _ in ACTS]
CHANNELS = 2
AUDIT_EVENTS = 4
TRACE = 30
HOUR = 3_600_000
SHARED_MEMORY = Path("/dev/shm")


class Failed(AssertionError):
    """A run has found something: its seed, the event, the last things that happened, and how to see it again."""


class World:
    """One run. `without` are the numbers of clients that stay away."""

    def __init__(
        self,
        seed: int,
        hours: float,
        *,
        without: frozenset[int] = frozenset(),
        tell: Callable[[str], None] | None = None,
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
        self.recipes = build(self.chance("town"))
        self.promises = Promises(self.times, self.recipes)
        self.promises.targets = self.targets
        self.disk = Disk(self.chance("disk"))
        self.counts: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=TRACE)
        self.clients: dict[int, Client] = {}
        self.lull_until = 0
        self.calm = False
        """No client acts any more, nothing goes wrong."""
        self._digest = hashlib.sha256()
        self._number = 0
        self._lives = 0
        self.down = True
        self.process: Process

    def chance(self, name: str) -> Random:
        """Somebody's own generator."""
        return Random(f"{self.seed}/{name}")

    @property
    def hash(self) -> str:
        """What tells this run from another one."""
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
        with governing(self.times):
            try:
                self.begin()
                self.live()
                final_count.settle(self)
            except Exception as error:
                raise Failed(self._report(error)) from error
            finally:
                self.clean()

    def begin(self) -> None:
        """Start the broker and declare what there is; nobody acts yet."""
        self.start()
        opening_declares.declare_everything(self)

    def live(self) -> None:
        """Have clients act and things go wrong for all the hours."""
        for number in range(CLIENTS):
            if number not in self.without:
                self._come_alive(number, self.chance(f"client {number}"))
        mishaps.begin(self)
        while self.times.now < self.hours * HOUR:
            self._event()

    def _come_alive(self, number: int, chance: Random) -> None:
        def act() -> None:
            if not self.calm:
                self.agenda.after(max(_pause(chance), self.lull_until - self.times.now), act)
                self.act(number, chance.choices([act for _, act in ACTS], WEIGHTS)[0], chance)

        self.agenda.after(chance.randint(0, 100), act)

    def _event(self) -> None:
        self.promises.event += 1
        self._sync()
        self.agenda.go_on()
        self._after_event()

    def _after_event(self) -> None:
        if self.down:
            return
        self._sync()
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
        self.look()

    def look(self) -> None:
        """Take note of the queues that exist."""
        queues = self.process.broker.vhosts["/"].queues.values()
        self.promises.look({queue.store.queue_id: queue.name for queue in queues})

    def _release_held(self, client: Client) -> None:
        for channel in client.channels.values():
            theirs = client.line.connection.channels.get(channel.number)
            free = theirs is not None and not theirs.held and not theirs.closing
            if channel.held and free and client.line.taken_in_so_far:
                channel.release_held()
            elif channel.held and not self.process.short:
                channel.obey_some_held()

    def audit(self) -> None:
        """Count everything."""
        queues = self.process.broker.vhosts["/"].queues.values()
        accounting.audit(self.promises, {queue.store.queue_id: queue for queue in queues})
        for client in self.clients.values():
            for channel in client.channels.values():
                since = max(min(channel.out_since.values(), default=self.times.now), channel.rolled_back_at)
                if self.times.now - since > CONSUMER_TIMEOUT + 3 * 60_000 and not channel.late and not channel.closing:
                    raise Broken(f"{client.name}.{channel.number} has held a message for too long")

    # The broker

    def start(self) -> None:
        """Start the broker, on what the last one has left."""
        self._lives += 1
        self.promises.begin()
        seed = f"{self.seed}/life {self._lives}"
        self.process = Process(
            self.directory / "data", self.agenda, self.disk, seed, lambda: self.kill("crash in a commit")
        )
        self.promises.batch = lambda: self.process.batch
        self.promises.short = lambda: bool(self.process.short)
        self.down = False

    def kill(self, why: str, downtime: int = 500) -> None:
        """The process is gone; after a while another one is started."""
        self.counts[why] += 1
        self.note(why)
        for client in self.clients.values():
            client.line.lose()
        self.process.kill()
        self._come_back(self.process.committed, downtime)

    def stop(self, downtime: int) -> None:
        """The broker is stopped in order, and started again."""
        self.counts["stop"] += 1
        self.note("stop")
        for place in self.promises.places.values():
            place.ending |= place.recipe.auto_delete and bool(place.takers)
        self.process.stop()
        for client in self.clients.values():
            client.line.lose()
        self._come_back(accounting.EVERYTHING, downtime)

    def _come_back(self, committed: int, downtime: int) -> None:
        self.down = True
        for client in self.clients.values():
            client.gone = True
            for channel in client.channels.values():
                channel.drop_held()
        self.clients.clear()
        self.lull_until = max(self.lull_until, self.times.now + downtime)

        def start() -> None:
            self.start()
            found = {queue.store.queue_id: queue.name for queue in self.process.broker.vhosts["/"].queues.values()}
            self.note(f"started, with {sorted(found.values())}")
            accounting.survive(self.promises, found, committed)
            self._check_bindings()
            self.audit()

        self.agenda.after(downtime, start)

    def _check_bindings(self) -> None:
        vhost = self.process.broker.vhosts["/"]
        there = {queue.store.queue_id for queue in vhost.route(vhost.exchanges[FANOUT], ("",), {}).queues}
        durable = {number for number in self.promises.bound if self.promises.places[number].recipe.durable}
        if not durable <= there:
            raise Broken(f"queues {sorted(durable - there)} have lost their binding")
        self.promises.bound &= durable

    def targets(self, exchange: str, key: str) -> list[Place]:
        """The queues that a publish reaches now."""
        self.look()
        if exchange == DELAYED:
            return [self.promises.named[LATE_QUEUE]]
        if not exchange:
            return [self.promises.named[key]] if key in self.promises.named else []
        vhost = self.process.broker.vhosts["/"]
        return [self.promises.named[queue.name] for queue in vhost.route(vhost.exchanges[exchange], (key,), {}).queues]

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
        if chosen is not None and not chosen.closing and not client.busy and not client.closing and client.opened:
            self.counts["acts"] += 1
            act(client, chosen, chance)

    def closed(
        self, client: Client, method: methods.ChannelClose | methods.ConnectionClose, channel: Channel | None = None
    ) -> None:
        """The broker has closed something: it must have had a reason."""
        text = method.reply_text
        if "shutdown" in text or (channel is not None and channel.at_fault and "unknown delivery tag" in text):
            return
        if channel is not None and "timed out" in text:
            oldest = min([self.times.now, *channel.out_since.values()])
            if self.times.now - oldest >= CONSUMER_TIMEOUT:
                self.counts["timed out"] += 1
                return
        raise Broken(f"{client.name} was sent away: {text}")

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
        away = "".join(f" --without {number}" for number in sorted(self.without))
        command = f"python -m tests.simulation --seed {self.seed} --hours {self.hours:g}{away} --verbose"
        trace = "\n  ".join(self.recent)
        told = f"{type(error).__name__}: {error}"
        if not isinstance(error, Broken):
            told = "".join(traceback.format_exception(error))
        return f"seed {self.seed}, event {self.promises.event}: {told}\n  {trace}\n{command}"


def _pause(chance: Random) -> int:
    """How many milliseconds a client waits before its next act."""
    drawn = chance.random()
    if drawn < 0.8:
        return chance.randint(0, 20)
    return chance.randint(20, 1_500) if drawn < 0.995 else chance.randint(1_500, 60_000)
