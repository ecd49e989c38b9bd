"""Every command by its name. It is loaded with the first one that comes over the socket: a broker starts without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import getmembers, isclass
from types import ModuleType

from broker.admin.commands import (
    connection_admin,
    definitions_admin,
    feature_flags,
    limit_admin,
    node_admin,
    parameter_admin,
    permission_admin,
    policy_admin,
    queue_admin,
    shovel_admin,
    user_admin,
    vhost_admin,
)
from broker.admin.commands.admin_command import AdminCommand, command_name
from broker.admin.protocol import invalid

SUBJECTS = (
    connection_admin,
    definitions_admin,
    feature_flags,
    limit_admin,
    node_admin,
    parameter_admin,
    permission_admin,
    policy_admin,
    queue_admin,
    shovel_admin,
    user_admin,
    vhost_admin,
)


def _commands_of(module: ModuleType) -> Iterator[type[AdminCommand]]:
    for name, kind in getmembers(module, isclass):
        if issubclass(kind, AdminCommand) and kind.__module__ == module.__name__ and not name.startswith("_"):
            yield kind


COMMANDS = {command_name(kind): kind for module in SUBJECTS for kind in _commands_of(module)}


def read_command(name: str, arguments: Mapping[str, object]) -> AdminCommand:
    """Read a command as it was sent. Raises AdministrationError `invalid`."""
    kind = COMMANDS.get(name)
    if kind is None:
        raise invalid("there is no such command")
    return kind.parse(arguments)
