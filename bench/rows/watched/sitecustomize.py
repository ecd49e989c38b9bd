"""Measures the turns of a broker that is started with this directory first in PYTHONPATH: see `bench/rows/turns.py`.

A turn is a step of a task in trio's loop. Its length is the CPU time of the loop's thread, which other processes do not
stretch, and what it went to is that of the functions in PARTS, each without those within it. On SIGRTMIN the longest
turns are written to the file that TURNS_FILE names, and counting begins again.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import trio

KEPT = 12
NOTED_SECONDS = 0.0005
LONG_SECONDS = 0.001

PARTS = (
    "broker.session.input.incoming_frames:IncomingFrames.receive",
    "broker.session.connection:Connection.release",
    "broker.session.channel.channel:Channel.release",
    "broker.session.channel.channel:Channel.fail",
    "broker.session.registry:Registry.shed_load",
    "broker.session.input.incoming_frames:_handle_batch",
    "broker.session.input.dispatch:handle",
    "broker.entities.exchanges.routing:Routing.route",
    "broker.entities.scheduling.turn:Turn.end",
    "broker.entities.queues.ordered_queue:OrderedQueue.deliver",
    "broker.entities.queues.ordered_queue:OrderedQueue.requeue",
    "broker.entities.queues.queue:Queue.delete",
    "broker.entities.vhosts.vhost:VHost.release",
    "broker.entities.vhosts.vhost:VHost.delete_queue",
    "broker.entities.vhosts.dead_lettering:DeadLettering.publish",
    "broker.entities.scheduling.timers:Timers.run",
    "broker.entities.node.broker:Broker.stored",
    "broker.entities.scheduling.pending_batches:PendingBatches.next",
    "broker.server.net.transport:Transport.flush",
    "broker.server.net.transport:Transport.beat",
)


class Watch(trio.abc.Instrument):
    """The turns of one event loop."""

    def __init__(self) -> None:
        self.longest: list[tuple[float, str, dict[str, float]]] = []
        self.lengths: Counter[int] = Counter()
        self.tasks: dict[str, tuple[float, int]] = {}
        """Milliseconds of each task's longest turn, and the number of its turns of one or more."""
        self._parts: Counter[str] = Counter()
        self._within: list[float] = []
        self._began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn begins."""
        self._parts.clear()
        self._within.clear()
        self._began = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn has ended."""
        seconds = thread_time() - self._began
        self.lengths[int(seconds * 1000)] += 1
        name = task.name.rpartition(".")[2]
        most, long = self.tasks.get(name, (0.0, 0))
        self.tasks[name] = max(most, round(seconds * 1000, 1)), long + (seconds >= LONG_SECONDS)
        if seconds < NOTED_SECONDS or (len(self.longest) == KEPT and seconds <= self.longest[-1][0]):
            return
        parts = {part: round(took * 1000, 1) for part, took in self._parts.most_common(5) if took > seconds / 50}
        self.longest = sorted([*self.longest, (seconds, name, parts)], key=_first)[:KEPT]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that counts what it takes, less what others take that it calls."""

        def watched(*arguments: Any, **options: Any) -> Any:
            self._within.append(0.0)
            began = thread_time()
            try:
                return function(*arguments, **options)
            finally:
                whole = thread_time() - began
                within = self._within.pop() if self._within else 0.0
                if self._within:
                    self._within[-1] += whole
                what = f"{name} {type(arguments[1].method).__name__}" if name == "handle" else name
                self._parts[what] += whole - within

        return watched

    def collected(self, phase: str, details: dict[str, int]) -> None:
        """Python's collector begins or ends."""
        if phase == "start":
            self._collecting = thread_time()
            return
        seconds = thread_time() - self._collecting
        if self._within:
            self._within[-1] += seconds
        self._parts[f"gc {details['generation']}"] += seconds

    def write(self, *_: object) -> None:
        """Write down what was seen, and begin again."""
        turns = [{"ms": round(seconds * 1000, 1), "task": task, **most} for seconds, task, most in self.longest]
        path = Path(os.environ["TURNS_FILE"])
        unfinished = path.with_suffix(".unfinished")
        found = {"longest": turns, "lengths": sorted(self.lengths.items()), "tasks": self.tasks}
        unfinished.write_text(json.dumps(found))
        unfinished.rename(path)
        self.longest, self.lengths, self.tasks = [], Counter(), {}


def _first(turn: tuple[float, str, dict[str, float]]) -> float:
    return -turn[0]


def _patch(watch: Watch) -> None:
    for part in PARTS:
        module, _, path = part.partition(":")
        *holders, name = path.split(".")
        holder = importlib.import_module(module)
        for step in holders:
            holder = getattr(holder, step)
        label = path if holders else name
        setattr(holder, name, watch.timed(label, getattr(holder, name)))


def _watch() -> None:
    watch, run = Watch(), trio.run

    def run_watched(*arguments: Any, **options: Any) -> Any:
        _patch(watch)
        gc.callbacks.append(watch.collected)
        signal.signal(signal.SIGRTMIN, watch.write)
        return run(*arguments, instruments=[watch], **options)

    trio.run = run_watched


if "TURNS_FILE" in os.environ:
    _watch()
