"""Puts the parts for test requests together: made before the broker, which gets its clock from here, and attached to
the server around it.
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
from broker.testing.event_history import HistoryRecorder, MessageHistory
from broker.testing.expectations import Expectations
from broker.testing.faults.faulty_parts import FaultyParts
from broker.testing.faults.present_faults import PresentFaults
from broker.testing.faults.requested_faults import Faults
from broker.testing.gate import Gate
from broker.testing.quiescence import Quiescence
from broker.testing.request_arguments import RequestArguments
from broker.testing.reset import BrokerReset
from broker.testing.snapshots import DIRECTORY, Snapshots
from broker.testing.testing_requests import REQUESTS
from broker.testing.time_control import TimeControl

if TYPE_CHECKING:
    from broker.admin.definitions.definitions_file import DefinitionsFile
    from broker.entities.queues.events.event_recording import Recorder
    from broker.server.server import Server

log = logging.getLogger("leveret.testing")


RED = "\033[31m%s\033[0m"


class Testing:
    """Carries out test requests."""

    time: TimeControl
    broker_reset: BrokerReset
    expectations: Expectations
    snapshots: Snapshots

    def __init__(self) -> None:
        self.clock = ControlledClock()
        self.history = MessageHistory(self.clock.now)
        self.faults = Faults()
        self._gate = Gate()
        self._parts = FaultyParts(self.faults, self.history, self.clock, self._gate)

    @property
    def parts(self) -> ReplaceableParts:
        """The parts of a server that inject faults."""
        return self._parts.parts

    def recorder(self, boot: int, log: Recorder | None) -> Recorder:
        """Return the recorder that keeps the history, and passes records on to that of the event log, if it is on."""
        self._recorder = HistoryRecorder(boot, self.history, log)
        return self._recorder

    def attach(self, server: Server, imported: DefinitionsFile | None, *, default_user: bool) -> None:
        """Accept test requests from now on. `imported` is the definitions file of the settings."""
        log.warning(RED if _shown(server.config) else "%s", TESTING_ON)
        broker, administration = server.broker, server.administration
        quiescence = Quiescence(broker, server.committer, server.engine.end_turn)
        self.time = TimeControl(self.clock, broker, quiescence, server.clients.transports, server.engine.wake)
        self.broker_reset = BrokerReset(
            administration,
            server.config,
            quiescence,
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
            self.broker_reset,
            quiescence,
            self._recorder.begin_boot,
            event_log=server.config.events.enabled,
        )
        self.expectations = Expectations(server.registry, self.history, quiescence, server.clients.transports)
        present = PresentFaults(server.registry, server.resources, server.engine.end_turn)
        self.faults.attach(present.begin, present.end)
        self._parts.attach(server.clients.transports, broker.timers)
        administration.testing = self

    async def carry_out(self, request: str, given: Mapping[str, object]) -> object:
        """Carry out a request by its name and return its answer. Raises AdministrationError."""
        if request not in REQUESTS:
            raise not_found(f"there is no request {request}; known: {', '.join(REQUESTS)}")
        known = REQUESTS[request].arguments
        if known is not None and (unknown := [name for name in given if name not in known]):
            raise invalid(f"{request} takes no argument {unknown[0]}; known: {', '.join(known) or 'none'}")
        return await REQUESTS[request].carry_out(self, RequestArguments(given))

    def status(self) -> dict[str, Any]:
        """Return clock, faults, history and snapshots as they are now."""
        faults = [fault.shown() for fault in self.faults.requested.values()]
        history = {"first": self.history.first, "last": self.history.last}
        return {"clock": self.time.show(), "faults": faults, "history": history, "snapshots": self.snapshots.names()}

    async def reset(self) -> dict[str, Any]:
        """Reset the broker to the state of a new data directory; return how long that took."""
        began = time.perf_counter()
        self.faults.lift_all()
        async with self.time.starting_anew():
            await self.broker_reset.empty()
        self.history.clear()
        milliseconds = round((time.perf_counter() - began) * 1000, 3)
        log.info("everything is reset by a test request, in %.1f ms", milliseconds)
        return {"milliseconds": milliseconds}


def _shown(config: Config) -> bool:
    """Return whether the log goes to a terminal."""
    return sys.stderr.isatty() and config.logs.form == "text" and not config.logs.file
