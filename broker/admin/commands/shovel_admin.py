"""Shovels: their states, restart, removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import AdminChange, RowList, Text, VhostList
from broker.admin.commands.parameter_admin import ClearParameter
from broker.admin.protocol import not_found
from broker.entities.node.parameters import SHOVEL

if TYPE_CHECKING:
    from broker.admin.administration import Administration

SHOVEL_COLUMNS = (
    "name",
    "vhost",
    "type",
    "state",
    "timestamp",
    "reason",
    "src_protocol",
    "src_uri",
    "src_queue",
    "src_exchange",
    "src_exchange_key",
    "dest_protocol",
    "dest_uri",
    "dest_queue",
    "dest_exchange",
    "dest_exchange_key",
)


class ListShovels(VhostList, RowList):
    """List shovels, static and dynamic."""

    row_columns: ClassVar[tuple[str, ...]] = SHOVEL_COLUMNS

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        return [row for row in administration.shovels.rows() if self.vhost in (None, row.get("vhost"))]


class RestartShovel(AdminChange):
    """Restart a dynamic shovel, with all its declarations."""

    log_words: ClassVar[str] = "shovel '{name}' of virtual host '{vhost}' is restarted"
    vhost: Text
    name: Text

    async def apply(self, administration: Administration) -> None:
        vhost = administration.vhost(self.vhost).name
        if not administration.shovels.restart(vhost, self.name):
            raise _absent(vhost, self.name)


class DeleteShovel(AdminChange):
    """Remove a dynamic shovel, which is a parameter."""

    log_words: ClassVar[str] = "shovel '{name}' of virtual host '{vhost}' is deleted"
    vhost: Text
    name: Text

    async def apply(self, administration: Administration) -> None:
        vhost = administration.vhost(self.vhost).name
        if (vhost, SHOVEL, self.name) not in administration.broker.parameters.of_vhosts:
            raise _absent(vhost, self.name)
        await ClearParameter(vhost=vhost, component=SHOVEL, name=self.name).apply(administration)


def _absent(vhost: str, name: str) -> Exception:
    return not_found(f"no shovel '{name}' in vhost '{vhost}'")
