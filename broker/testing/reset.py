"""Reset of the broker to the state of a new data directory, in the same process."""

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
from broker.testing.quiescence import Quiescence
from storage.definitions.definition_rows import Change, GlobalParameterRow, UserRow, VhostRow, delete

REASON = "a test has ordered that the broker be empty"


class BrokerReset:
    """Resets the broker to the state of a new data directory. `imported` is the definitions file of the settings.

    `limit` sets the limits of memory and disk to those of the settings.
    """

    def __init__(
        self,
        administration: Administration,
        config: Config,
        quiescence: Quiescence,
        gate: Gate,
        imported: DefinitionsFile | None,
        *,
        default_user: bool,
        limit: Callable[[], None],
    ) -> None:
        self._administration = administration.acting_for(INTERNAL)
        self._config = config
        self._quiescence = quiescence
        self._gate = gate
        self._imported = imported
        self._default_user = default_user
        self._limit = limit

    async def empty(self) -> None:
        """Close all connections and delete everything. Definitions are deleted on disk when this returns.

        Messages left on disk belong to no queue, and are cleared later. Clients are not waited for.
        """
        administration = self._administration
        async with administration.turns, self.without_clients():
            changes = [*self.deletions(), *default_definitions(self._config, default_user=self._default_user)]
            await administration.change(*changes)
            self.close_connections()  # those of shovels that connected meanwhile
            administration.registry.login_throttle.forget_all()
            self._limit()
            await self._quiescence.settle()
            if self._imported is not None:
                await definitions_import.add(administration, self._imported)
            if administration.broker.event_exchange is not None:
                await event_exchange_setup.declare(administration, administration.broker.event_exchange)

    @asynccontextmanager
    async def without_clients(self) -> AsyncIterator[None]:
        """Close all connections. Clients that connect meanwhile are served afterwards: one whose first attempt fails
        may wait for seconds before the next."""
        with self._gate.closed():
            self.close_connections()
            yield

    def close_connections(self) -> None:
        """Close all open connections with 320 CONNECTION_FORCED."""
        for connection in list(self._administration.registry.connections):
            if _overlooks_close(connection):
                connection.refuse(REASON)
            elif connection.phase is Phase.OPEN:
                connection.force_close(REASON)
        self._administration.end_turn()

    def deletions(self) -> Iterator[Change]:
        """Yield the changes that delete all definitions."""
        broker = self._administration.broker
        yield from (delete(VhostRow, name=name) for name in broker.vhosts)
        yield from (delete(UserRow, name=name) for name in broker.users.by_name)
        yield from (
            delete(GlobalParameterRow, name=name) for name in broker.parameters.everywhere if name != CLUSTER_ID
        )


def _overlooks_close(connection: Connection) -> bool:
    """Return whether a client may be a Celery worker, which in its first 100 ms ignores one method (`_quick_drain`):
    after a connection.close it would wait for ever. It does notice that its socket is closed."""
    return plain(connection.client_properties).get("product") == "py-amqp" and any(
        channel.consumers for channel in connection.channels.values()
    )
