"""Cost of each step of a message, in us of CPU: the broker's core driven without sockets, trio or threads.

The core gets the very bytes that the load of bench/load/load.c sends (1 KiB, persistent, confirms, one ack for each
delivery), 250 messages to a piece as a full `recv` brings them, 500 to a batch as a window of 1,000 makes them.
Nothing is instrumented, so nothing has to be taken off again:

- steps with a call of their own (the end of a turn, sealing, the commit, telling the waiters, acks) are timed whole,
  a batch at a time;
- the steps within `IncomingFrames.receive` come from differences between runs that each do one thing more: queues take
  nothing (`ClassicQueue.publish` and `publish_all` replaced), so that cutting frames, finding the target and making the
  message remain; transient messages; persistent; persistent with confirms. Publishes that are alike are routed once
  for all of them, so "route another" is told apart from the rest: what a publish costs more when its key is another
  than that of the one before.

Times are the thread's CPU time, medians over all batches; for the commit the wall time is given too, most of which is
the disk's. Acks come after the commit here, so that all that is published is written and settled on disk. Under load
many acks come while the batch still gathers, and then neither happens. `tcp_acknowledgement` is the one that a turn
without an answer sends (broker/server/net/prompt_acks.py), once for a turn, with the peer's handling of it, which on
loopback happens in the same call; it is in no sum. The server's share (sockets, the event loop,
handing batches to the thread) is the rest of the CPU time per message that `python -m bench rates` reports.
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

from bench.load.measured_broker import Wanted, report
from broker.entities.messages.message import Message
from broker.entities.queues.ordered_queue import ClassicQueue
from broker.entities.queues.ready_messages import MemoryWindow
from broker.server.net.prompt_acks import acknowledge
from broker.wire import frames, methods
from harness.brokers.broker_core import Core
from harness.clients.amqp_peer import Login, publish_frames
from harness.clients.session_client import SessionClient, SessionLayer

BODY = b"x" * 1024
PIECE = 250
BATCH = 500
BATCHES = 200
WINDOW = MemoryWindow(4096, 8 << 20)

Costs = dict[str, list[float]]


class DiscardingClient(SessionClient):
    """One connection with channel 1; whatever is said to it is taken and thrown away."""

    def __init__(self, sessions: SessionLayer) -> None:
        super().__init__(sessions)
        self.heeding = False
        self.say(b"".join(Login(capabilities={}).at_once()))
        self.send(methods.ChannelOpen())

    def feed(self, data: bytes) -> None:
        """Have all of it handled, in as many turns as that takes, without ending any."""
        self.frames.receive(data)
        while self.frames.unfinished:
            self.frames.receive(b"")


class Receiver:
    """A run of publishes with nobody consuming: what `IncomingFrames.receive` costs for each, in us."""

    def __init__(
        self, stack: ExitStack, *keys: str, taken: bool = True, persistent: bool = True, confirms: bool = False
    ) -> None:
        self.costs: list[float] = []
        self._core, self._client = stack.enter_context(_core())
        self._taking = nullcontext if taken else _nothing_taken
        publishes = [publish_frames(BODY, key=key, persistent=persistent) for key in keys]
        self._piece = b"".join(publishes) * (PIECE // len(keys))
        if confirms:
            self._client.send(methods.ConfirmSelect(False))

    def run_batch(self) -> None:
        """Time one batch; its messages go to disk, and are purged."""
        with self._taking():
            _timed(self.costs, self._receive)
        self._core.commit()
        self._client.send(methods.QueuePurge("steps", False))
        self._core.commit()

    def _receive(self) -> None:
        for _ in range(BATCH // PIECE):
            self._client.feed(self._piece)


def steps(wanted: Wanted) -> None:
    """Print the budget of one message."""
    batches = max(10, int(BATCHES * wanted.part))
    budget = _received(batches)
    another = budget.pop("(route another)")
    whole = {name: statistics.median(costs) for name, costs in _whole_way(batches).items()}
    received, wall = whole.pop("(receive)"), whole.pop("(commit, wall)")
    report(
        "steps of a message, us",
        **{name: round(cost, 3) for name, cost in (budget | whole).items()},
        sum_of_steps=round(sum((budget | whole).values()), 3),
        timed_together=round(received + sum(whole.values()), 3),
        commit_wall=round(wall, 3),
        route_another=round(another, 3),
        tcp_acknowledgement=round(statistics.median(_acknowledgements(batches)), 3),
        batches=batches,
    )


def _received(batches: int) -> dict[str, float]:
    """The steps within `IncomingFrames.receive`. The runs take turns: what drifts on the machine falls on all."""
    with ExitStack() as stack:
        receivers = (
            Receiver(stack, "steps", taken=False),
            Receiver(stack, "steps", "others", taken=False),
            Receiver(stack, "steps", persistent=False),
            Receiver(stack, "steps"),
            Receiver(stack, "steps", confirms=True),
        )
        for _ in range(batches):
            for receiver in receivers:
                receiver.run_batch()
    parse, alternating, enqueue, batch, confirm = (statistics.median(receiver.costs) for receiver in receivers)
    return {
        "parse": parse,
        "(route another)": alternating - parse,
        "enqueue": enqueue - parse,
        "batch, gathering": batch - enqueue,
        "confirm, noting": confirm - batch,
    }


def _acknowledgements(batches: int) -> list[float]:
    """Return the cost of acknowledging a received message of TCP at once, in us for each turn."""
    costs = []
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            for _ in range(batches):
                client.sendall(BODY)
                server.recv(len(BODY), socket.MSG_WAITALL)
                began = time.thread_time_ns()
                acknowledge(server)
                costs.append((time.thread_time_ns() - began) / 1000)
                server.sendall(b"x")  # an answer, as of a client's connection: the kernel delays again
                client.recv(1)
    return costs


@contextmanager
def _nothing_taken() -> Iterator[None]:
    """Publishes get as far as their queues, which take none. Raises RuntimeError if no queue was asked to."""
    asked: list[ClassicQueue] = []

    def publish(queue: ClassicQueue, messages: Message | Sequence[Message]) -> bool:
        if not asked:
            asked.append(queue)
        return False

    with patch.object(ClassicQueue, "publish", publish), patch.object(ClassicQueue, "publish_all", publish):
        yield
    if not asked:
        raise RuntimeError(
            "publishes no longer reach ClassicQueue.publish: what parsing costs has to be told otherwise"
        )


@contextmanager
def _core() -> Iterator[tuple[Core, DiscardingClient]]:
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as directory:
        core = Core(Path(directory) / "messages", WINDOW, check_invariants=False)
        try:
            core.queue("steps")
            core.queue("others")
            yield core, DiscardingClient(SessionLayer(core))
        finally:
            core.close()


def _timed(costs: list[float], action: Callable[[], object], clock: Callable[[], int] = time.thread_time_ns) -> None:
    """Note what an action costs for each message of a batch, in us."""
    started = clock()
    action()
    costs.append((clock() - started) / BATCH / 1000)


def _whole_way(batches: int) -> Costs:
    """Every later step of persistent messages with confirms, delivered and acknowledged one by one."""
    piece = publish_frames(BODY, key="steps", persistent=True) * PIECE
    costs: Costs = {name: [] for name in ("(receive)", "deliver", "seal", "commit", "confirm, telling", "ack")}
    costs["(commit, wall)"] = []
    with _core() as (core, client):
        client.send(methods.ConfirmSelect(False))
        reader = DiscardingClient(SessionLayer(core))
        reader.send(methods.BasicConsume("steps", "c", False, False, False, False, {}))
        for number in range(batches):
            _one_batch(core, client, reader, piece, number, costs)
    return costs


def _one_batch(
    core: Core, client: DiscardingClient, reader: DiscardingClient, piece: bytes, number: int, costs: Costs
) -> None:
    received: list[float] = []
    delivered: list[float] = []
    for _ in range(BATCH // PIECE):
        _timed(received, lambda: client.feed(piece))
        _timed(delivered, core.end_turn)
    costs["(receive)"].append(sum(received))
    costs["deliver"].append(sum(delivered))
    batches = core.broker.batches
    _timed(costs["seal"], batches.seal)
    sealed = batches.sealed.popleft()
    wall = time.perf_counter_ns()
    _timed(costs["commit"], lambda: core.store.commit(sealed))
    costs["(commit, wall)"].append((time.perf_counter_ns() - wall) / BATCH / 1000)

    def tell() -> None:
        core.broker.stored(sealed)
        core.end_turn()

    _timed(costs["confirm, telling"], tell)
    tags = range(number * BATCH + 1, (number + 1) * BATCH + 1)
    acks = b"".join(frames.method_frame(1, methods.BasicAck(tag, False)) for tag in tags)
    _timed(costs["ack"], lambda: reader.feed(acks))
    core.end_turn()
