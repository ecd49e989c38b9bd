"""Shovels: how each does, begun anew, removed."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.protocol import not_found
from broker.admin.settings.parameter_admin import clear_parameter
from broker.admin.views.listing import Row, View, cells
from broker.entities.vhosts.parameters import SHOVEL

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


def _shovels(administration: Administration, arguments: Arguments) -> list[Row]:
    vhost = arguments.optional("vhost")
    return [row for row in administration.shovels.rows() if vhost in (None, row.get("vhost"))]


SHOVELS = View(_shovels, cells(*SHOVEL_COLUMNS))


async def restart_shovel(administration: Administration, arguments: Arguments) -> None:
    """End a dynamic shovel and begin it anew, with all that it declares."""
    vhost, name = administration.vhost(arguments.text("vhost")).name, arguments.text("name")
    if not administration.shovels.restart(vhost, name):
        raise _absent(vhost, name)


async def delete_shovel(administration: Administration, arguments: Arguments) -> None:
    """Remove a dynamic shovel, which is its parameter."""
    vhost, name = administration.vhost(arguments.text("vhost")).name, arguments.text("name")
    if (vhost, SHOVEL, name) not in administration.broker.parameters.of_vhosts:
        raise _absent(vhost, name)
    await clear_parameter(administration, Arguments({"vhost": vhost, "component": SHOVEL, "name": name}))


def _absent(vhost: str, name: str) -> Exception:
    return not_found(f"no shovel '{name}' in vhost '{vhost}'")
