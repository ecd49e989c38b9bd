"""A standby as a process of its own: `python -m broker follow` on a data directory, until it is promoted."""

from __future__ import annotations

import select

from harness.brokers.broker_process import READY_SECONDS, BrokerProcess

FOLLOWS = "leveret follows: "


class StandbyProcess(BrokerProcess):
    """A standby. Once it is promoted it is a broker: `await_promoted` says so. Started again, it is what it was."""

    place = ""
    """The place that it follows; empty: as its settings say."""
    promoted = False

    def arguments(self) -> list[str]:
        """Arguments before the options."""
        named = ["--from", self.place] if self.place else []
        listen = f"{self.address[0]}:{self.address[1]}"
        return ["follow", *named, "--data-dir", str(self.data_dir), "--listen", listen, *self.http]

    def await_promoted(self) -> None:
        """Return when the broker that it has become accepts clients. Fails with its log when it ends before."""
        self.promoted = True
        self.await_ready()

    def start_as_it_is(self) -> None:
        """Start it where it is not known whether it was promoted before, and note that."""
        self.launch()
        self.promoted = not self._hear_ready()
        if self.promoted and not self._is_ready():
            raise AssertionError(f"neither a standby nor a broker: {self.ready_line!r}\n{self.log()}")

    def _hear_ready(self) -> bool:
        if self.promoted:
            return super()._hear_ready()
        assert self._process is not None
        assert self._process.stdout is not None
        said, _, _ = select.select([self._process.stdout], [], [], READY_SECONDS)
        self.ready_line = self._process.stdout.readline() if said else f"nothing in {READY_SECONDS} s"
        return self.ready_line.startswith(FOLLOWS)
