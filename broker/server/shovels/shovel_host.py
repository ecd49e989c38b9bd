"""The shovels of a running broker. The package `broker.shovel` is not loaded before there is one."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.admin.commands.command_execution import carry_out
from broker.admin.protocol import AdministrationError
from broker.config import ConfigError
from broker.entities.node.parameters import SHOVEL
from broker.server.net import local_connections

if TYPE_CHECKING:
    from broker.server.server import Server
    from broker.shovel.definition import ShovelName
    from broker.shovel.shovels import RunningShovels, ShovelState

log = logging.getLogger("leveret.shovel")

ACTING = "rmq-shovel"
"""The user, as in RabbitMQ, who removes the parameter of a shovel that has finished."""


def check(static: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the shovels of the settings. Raises ConfigError."""
    if static:
        from broker.admin.kinds import shovel_check

        problem = shovel_check.static_problem(static)
        if problem:
            raise ConfigError(problem)


class ShovelHost:
    """The shovels of a broker: static ones of its settings, and dynamic ones, parameters of virtual hosts."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._shovels: RunningShovels | None = None
        self._kept: dict[tuple[str | None, str], ShovelState] = {}
        """The shovels that do not run here, by virtual host and name."""

    def begin(self, static: Mapping[str, Mapping[str, Any]]) -> None:
        """Start all shovels, and from now on those that are added."""
        from_parameters = self._server.broker.parameters
        for name, value in static.items():
            self._put(None, name, value)
        for vhost, component, name in list(from_parameters.of_vhosts):
            if component == SHOVEL:
                self._changed(vhost, name)
        from_parameters.on_shovel = self._changed

    def rows(self) -> list[dict[str, Any]]:
        """Return the status of each shovel."""
        if self._shovels is None and not self._kept:
            return []
        from broker.shovel.definition import ShovelName
        from broker.shovel.shovels import row

        node = self._server.control.node_name
        states = [] if self._shovels is None else [*self._shovels.states()]
        states += [(ShovelName(*key), state) for key, state in self._kept.items()]
        return [{"node": node, **row(name, state)} for name, state in states]

    def restart(self, vhost: str, name: str) -> bool:
        """Restart a dynamic shovel; False if there is none of this name."""
        if self._shovels is None:
            return False
        from broker.shovel.definition import ShovelName

        return self._shovels.restart(ShovelName(vhost, name))

    async def stop(self) -> None:
        """Stop all shovels, and return when their connections are closed."""
        self._server.broker.parameters.on_shovel = None
        if self._shovels is not None:
            await self._shovels.stop()

    def _changed(self, vhost: str, name: str) -> None:
        self._kept.pop((vhost, name), None)
        value = self._server.broker.parameters.of_vhosts.get((vhost, SHOVEL, name))
        if value is not None:
            self._put(vhost, name, value)
        elif self._shovels is not None:
            from broker.shovel.definition import ShovelName

            self._shovels.remove(ShovelName(vhost, name))

    def _put(self, vhost: str | None, name: str, value: Any) -> None:
        from broker.admin.kinds import shovel_check
        from broker.shovel.definition import ShovelName, read

        foreign = shovel_check.foreign_protocol(value)
        if foreign:
            self._keep(vhost, name, foreign)
            return
        problems = shovel_check.problems(name, value, lambda vhost: "", self._server.broker.personality.series)
        if problems:  # it was imported by an earlier version, which did not check it
            log.error("shovel '%s' is not started: %s", name, "; ".join(problems))
            return
        if self._shovels is None:
            self._shovels = self._made()
        self._shovels.put(ShovelName(vhost, name), read(value))

    def _keep(self, vhost: str | None, name: str, protocol: str) -> None:
        from broker.shovel.definition import ShovelName
        from broker.shovel.shovels import TERMINATED, ShovelState

        reason = f"protocol {protocol} is not spoken here, only amqp091: the shovel is kept and does not run"
        log.warning("shovel '%s': %s", name, reason)
        if self._shovels is not None and vhost is not None:
            self._shovels.remove(ShovelName(vhost, name))
        self._kept[vhost, name] = ShovelState(TERMINATED, time.time(), reason, {})

    def _made(self) -> RunningShovels:
        from broker.shovel.shovel_worker import Surroundings
        from broker.shovel.shovels import RunningShovels

        server = self._server
        enter = partial(local_connections.open_pair, server.clients)
        surroundings = Surroundings(enter, lambda: server.registry.cluster_name)
        return RunningShovels(server.nursery, surroundings, self._forget, self._publish)

    async def _forget(self, name: ShovelName) -> None:
        administration = self._server.administration.acting_for(ACTING)
        # Imported here, as all else that only a broker with shovels needs.
        from broker.admin.commands.parameter_admin import ClearParameter

        assert name.vhost is not None, "a static shovel has no parameter"
        try:
            await carry_out(administration, ClearParameter(vhost=name.vhost, component=SHOVEL, name=name.name))
        except AdministrationError as error:
            log.warning("shovel %s has finished, but its parameter cannot be removed: %s", name, error)

    def _publish(self, name: ShovelName, state: ShovelState | None) -> None:
        """Publish a shovel's state to the event exchange, if there is one."""
        exchange = self._server.broker.event_exchange
        if exchange is None:
            return
        headers: dict[str, Any] = {"name": name.name, **({} if name.vhost is None else {"vhost": name.vhost})}
        if state is None:
            exchange.publish("shovel.worker.removed", headers)
            return
        reason = {"reason": state.reason} if state.reason else {}
        exchange.publish("shovel.worker.status", {**headers, "status": state.state, **state.particulars, **reason})
