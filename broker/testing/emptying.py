"""An empty broker for the next test, in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from broker.admin.administration import Administration
from broker.admin.definitions import definitions_import, event_exchange_setup
from broker.admin.definitions.definitions_file import DefinitionsFile
from broker.admin.json_tables import plain
from broker.config import Config
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.node.parameters import CLUSTER_ID
from broker.server.recovery import default_definitions
from broker.session.connection import Connection
from broker.session.login.phase import Phase
from broker.testing.gate import Gate
from broker.testing.settling import Settling
from storage.definitions.definition_rows import Change, GlobalParameterRow, UserRow, VhostRow, delete

REASON = "a test has ordered that the broker be empty"


class Emptying:
    """Makes the broker what a new data directory makes it. `imported` is the definitions file of the settings.

    `limit` sets the limits of memory and disk to those of the settings.
    """

    def __init__(
        self,
        administration: Administration,
        config: Config,
        settling: Settling,
        gate: Gate,
        imported: DefinitionsFile | None,
        *,
        default_user: bool,
        limit: Callable[[], None],
    ) -> None:
        self._administration = administration.acting_for(INTERNAL)
        self._config = config
        self._settling = settling
        self._gate = gate
        self._imported = imported
        self._default_user = default_user
        self._limit = limit

    async def empty(self) -> None:
        """Send all clients away, and delete everything. Definitions are deleted on disk when this returns.

        What is left of messages on disk belongs to nothing, and is cleared away after this. No client is waited for.
        """
        administration = self._administration
        async with administration.turns, self.without_clients():
            changes = [*self.deletions(), *default_definitions(self._config.defaults, default_user=self._default_user)]
            await administration.change(*changes)
            self.send_clients_away()  # shovels that connected meanwhile, to what is deleted now
            administration.registry.login_throttle.forget_all()
            self._limit()
            await self._settling.settle()
            if self._imported is not None:
                await definitions_import.add(administration, self._imported)
            if administration.broker.event_exchange is not None:
                await event_exchange_setup.declare(administration, administration.broker.event_exchange)

    @asynccontextmanager
    async def without_clients(self) -> AsyncIterator[None]:
        """Send all clients away. Those that connect meanwhile are served when this is left: a client whose first
        attempt fails may wait for seconds before the next."""
        with self._gate.closed():
            self.send_clients_away()
            yield

    def send_clients_away(self) -> None:
        """Close all open connections: 320 CONNECTION_FORCED, with the reason."""
        for connection in list(self._administration.registry.connections):
            if _overlooks_close(connection):
                connection.refuse(REASON)
            elif connection.phase is Phase.OPEN:
                connection.force_close(REASON)
        self._administration.end_turn()

    def deletions(self) -> Iterator[Change]:
        """The changes that leave nothing of the definitions."""
        broker = self._administration.broker
        yield from (delete(VhostRow, name=name) for name in broker.vhosts)
        yield from (delete(UserRow, name=name) for name in broker.users.by_name)
        yield from (
            delete(GlobalParameterRow, name=name) for name in broker.parameters.everywhere if name != CLUSTER_ID
        )


def _overlooks_close(connection: Connection) -> bool:
    """It may be a Celery worker, which in its first 100 ms ignores what one method says (`_quick_drain`): after a
    connection.close it would wait forever. That its socket is closed it notices."""
    return plain(connection.client_properties).get("product") == "py-amqp" and any(
        channel.consumers for channel in connection.channels.values()
    )
