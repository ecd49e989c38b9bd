"""What takes orders of tests, put together: made before the broker, which gets its clock from here, and attached to the
server around it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.admin.administration import TESTING_ON
from broker.admin.protocol import invalid, not_found
from broker.config import Config
from broker.server.net.replaceable_parts import ReplaceableParts
from broker.testing.controlled_clock import ControlledClock
from broker.testing.emptying import Emptying
from broker.testing.event_history import History, HistoryRecorder
from broker.testing.expectations import Expectations
from broker.testing.faults.fault_orders import Faults
from broker.testing.faults.faulty_parts import FaultyParts
from broker.testing.faults.present_faults import PresentFaults
from broker.testing.gate import Gate
from broker.testing.orders import ORDERS
from broker.testing.request_arguments import RequestArguments
from broker.testing.settling import Settling
from broker.testing.snapshots import DIRECTORY, Snapshots
from broker.testing.time_control import TimeControl

if TYPE_CHECKING:
    from broker.admin.definitions.definitions_file import DefinitionsFile
    from broker.entities.queues.events.event_recording import Recorder
    from broker.server.server import Server

log = logging.getLogger("leveret.testing")


RED = "\033[31m%s\033[0m"


class Testing:
    """The orders of tests, and what they change."""

    time: TimeControl
    emptying: Emptying
    expectations: Expectations
    snapshots: Snapshots

    def __init__(self) -> None:
        self.clock = ControlledClock()
        self.history = History(self.clock.now)
        self.faults = Faults()
        self._gate = Gate()
        self._parts = FaultyParts(self.faults, self.history, self.clock, self._gate)

    @property
    def parts(self) -> ReplaceableParts:
        """What serves clients, and obeys orders about faults."""
        return self._parts.chosen

    def recorder(self, boot: int, log: Recorder | None) -> Recorder:
        """What keeps the history; it hands everything on to the event log's recorder, if there is one."""
        self._recorder = HistoryRecorder(boot, self.history, log)
        return self._recorder

    def attach(self, server: Server, imported: DefinitionsFile | None, *, default_user: bool) -> None:
        """Take orders from now on. `imported` is the definitions file of the settings."""
        log.warning(RED if _shown(server.config) else "%s", TESTING_ON)
        broker, administration = server.broker, server.administration
        settling = Settling(broker, server.committer, server.engine.end_turn)
        self.time = TimeControl(self.clock, broker, settling, server.transports, server.engine.wake)
        self.emptying = Emptying(
            administration,
            server.config,
            settling,
            self._gate,
            imported,
            default_user=default_user,
            limit=server.resources.restore_limits,
        )
        self.snapshots = Snapshots(
            server.config.server.directory.absolute() / DIRECTORY,
            administration,
            server.definition_log,
            server.stores.messages,
            self.emptying,
            settling,
            self._recorder.begin_boot,
            event_log=server.config.events.enabled,
        )
        self.expectations = Expectations(server.registry, self.history, settling, server.transports)
        present = PresentFaults(server.registry, server.resources, server.engine.end_turn)
        self.faults.attach(present.begin, present.end)
        self._parts.attach(server.transports, broker.timers)
        administration.testing = self

    async def carry_out(self, order: str, given: Mapping[str, object]) -> object:
        """Carry out the order of a name; its answer. Raises AdministrationError."""
        if order not in ORDERS:
            raise not_found(f"there is no order {order}; known: {', '.join(ORDERS)}")
        known = ORDERS[order].arguments
        if known is not None and (unknown := [name for name in given if name not in known]):
            raise invalid(f"{order} takes no argument {unknown[0]}; known: {', '.join(known) or 'none'}")
        return await ORDERS[order].carry_out(self, RequestArguments(given))

    def status(self) -> dict[str, Any]:
        """What was ordered and holds at this moment."""
        faults = [order.shown() for order in self.faults.orders.values()]
        history = {"first": self.history.first, "last": self.history.last}
        return {"clock": self.time.show(), "faults": faults, "history": history, "snapshots": self.snapshots.names()}

    async def reset(self) -> dict[str, Any]:
        """Make everything as it is on a new data directory; how long that took."""
        began = time.perf_counter()
        self.faults.lift_all()
        async with self.time.starting_anew():
            await self.emptying.empty()
        self.history.clear()
        milliseconds = round((time.perf_counter() - began) * 1000, 3)
        log.info("everything is reset, by order of a test, in %.1f ms", milliseconds)
        return {"milliseconds": milliseconds}


def _shown(config: Config) -> bool:
    """The log is read on a terminal."""
    return sys.stderr.isatty() and config.logs.form == "text" and not config.logs.file
