"""All shovels of a broker: starting, restarting after failures, replacing and removing them, and their states."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import trio

from broker.shovel.definition import Shovel, ShovelName
from broker.shovel.shovel_worker import Ended, Surroundings, Worker

log = logging.getLogger("leveret.shovel")

STARTING, RUNNING, BLOCKED, TERMINATED = "starting", "running", "blocked", "terminated"

STOP_SECONDS = 1.0

OnChange = Callable[[ShovelName, "ShovelState | None"], None]


class ShovelState(NamedTuple):
    """The state of a shovel since `since`, in seconds since the epoch; `reason` is that of its termination."""

    state: str
    since: float
    reason: str = ""
    particulars: dict[str, str] = {}
    figures: dict[str, int | str] = {}


class RunningShovels:
    """The shovels of a broker. `forget` removes the parameter of a dynamic shovel that has finished; `on_change` is
    called with each new state of a shovel, and with None when it is removed."""

    def __init__(
        self,
        nursery: trio.Nursery,
        surroundings: Surroundings,
        forget: Callable[[ShovelName], Awaitable[None]],
        on_change: OnChange,
    ) -> None:
        self._nursery = nursery
        self._surroundings = surroundings
        self._forget = forget
        self._on_change = on_change
        self._runs: dict[ShovelName, Run] = {}

    def put(self, name: ShovelName, shovel: Shovel) -> None:
        """Start a shovel, after the end of a present one of this name."""
        before = self._runs.get(name)
        self._runs[name] = run = Run(name, shovel, self._report)
        self._nursery.start_soon(self._serve, run, before)

    def remove(self, name: ShovelName) -> None:
        """Stop and remove a shovel, if there is one of this name."""
        run = self._runs.pop(name, None)
        if run is not None:
            run.scope.cancel()
            self._on_change(name, None)

    def restart(self, name: ShovelName) -> bool:
        """Restart a shovel; False if there is none of this name."""
        run = self._runs.get(name)
        if run is not None:
            self.put(name, run.shovel)
        return run is not None

    async def stop(self) -> None:
        """Stop all shovels, and return when their connections are closed, or after STOP_SECONDS."""
        runs = list(self._runs.values())
        for run in runs:
            run.scope.cancel()
        with trio.move_on_after(STOP_SECONDS):
            for run in runs:
                await run.ended.wait()

    def states(self) -> Iterator[tuple[ShovelName, ShovelState]]:
        """Yield each shovel and its state."""
        for name, run in self._runs.items():
            yield name, run.shown

    async def _serve(self, run: Run, before: Run | None) -> None:
        if before is not None:
            before.scope.cancel()
            await before.ended.wait()
        try:
            with run.scope:
                moved = await run.until_done(self._surroundings)
                if moved and run.name.vhost is not None:
                    await self._forget(run.name)
        finally:
            run.ended.set()

    def _report(self, run: Run) -> None:
        if self._runs.get(run.name) is run:
            self._on_change(run.name, run.state)


class Run:
    """One shovel, from its definition until it is replaced, removed, or finished."""

    def __init__(self, name: ShovelName, shovel: Shovel, report: Callable[[Run], None]) -> None:
        self.name = name
        self.shovel = shovel
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self._report = report
        self._worker: Worker | None = None
        self.state = ShovelState(STARTING, time.time())

    @property
    def shown(self) -> ShovelState:
        """The state, with `blocked` in place of `running` while the destination blocks publishers, and the figures."""
        if self.state.state != RUNNING or self._worker is None:
            return self.state
        state = BLOCKED if self._worker.blocked else RUNNING
        return self.state._replace(state=state, figures={**self._worker.figures, "blocked_status": state})

    async def until_done(self, surroundings: Surroundings) -> bool:
        """Run, again after each failure. True if all messages are moved, False if it is not to be restarted."""
        while True:
            self._change(STARTING)
            try:
                await Worker(self.name, self.shovel, surroundings, self._runs).run()
            except Ended as error:
                if error.reason:
                    self._change(TERMINATED, error.reason)
            except Exception:  # an error in a shovel must not end the broker
                log.exception("error in shovel %s", self.name)
                self._change(TERMINATED, '"internal error"')
            else:
                self._change(TERMINATED, "{shutdown,autodelete}")
                return True
            if not self.shovel.reconnect_seconds:
                return False
            await trio.sleep(self.shovel.reconnect_seconds)

    def _runs(self, worker: Worker, particulars: dict[str, str]) -> None:
        self._worker = worker
        self._change(RUNNING, particulars=particulars)

    def _change(self, state: str, reason: str = "", particulars: dict[str, str] | None = None) -> None:
        self.state = ShovelState(state, time.time(), reason, particulars or {})
        self._report(self)


def row(name: ShovelName, state: ShovelState) -> dict[str, Any]:
    """Return a shovel as the API shows it."""
    shown: dict[str, Any] = {"timestamp": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.since))}
    shown |= {"name": name.name, "type": name.kind, "state": state.state, **state.particulars, **state.figures}
    if name.vhost is not None:
        shown["vhost"] = name.vhost
    if state.state == TERMINATED:
        shown["reason"] = state.reason
    return shown
