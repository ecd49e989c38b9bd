"""Limits of users and virtual hosts. What is over a new limit stays; the next one is refused."""

from __future__ import annotations

from collections.abc import Collection

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.kinds.limit_kind import checked, checked_of_vhost, replacing
from broker.admin.protocol import invalid
from broker.entities.vhosts.user_limits import OF_USERS, OF_VHOSTS
from storage.definitions.definition_rows import Put, UserLimitRow, VhostLimitRow, delete


async def set_user_limits(administration: Administration, arguments: Arguments) -> None:
    """Set some of a user's limits; the others stay."""
    name = administration.user(arguments.text("name")).name
    limits = checked(arguments.json("limits"), OF_USERS, "user-limits")
    await administration.change(*(Put(UserLimitRow(name, *limit)) for limit in limits.items()))


async def clear_user_limits(administration: Administration, arguments: Arguments) -> None:
    """Lift some of a user's limits, or all."""
    name = administration.user(arguments.text("name")).name
    await administration.change(*(delete(UserLimitRow, user=name, name=limit) for limit in _named(arguments, OF_USERS)))


async def set_vhost_limits(administration: Administration, arguments: Arguments) -> None:
    """Set a virtual host's limits; those that are not named are lifted, as in RabbitMQ (where a user's stay)."""
    name = administration.vhost(arguments.text("name")).name
    limits = checked_of_vhost(arguments.json("limits"))
    await administration.change(*replacing(administration.broker, name, limits))


async def set_vhost_limit(administration: Administration, arguments: Arguments) -> None:
    """Set one limit of a virtual host; the others stay."""
    name = administration.vhost(arguments.text("name")).name
    limits = checked_of_vhost({arguments.text("limit"): arguments.json("value")})
    await administration.change(*(Put(VhostLimitRow(name, *limit)) for limit in limits.items()))


async def clear_vhost_limits(administration: Administration, arguments: Arguments) -> None:
    """Lift some of a virtual host's limits, or all."""
    name = administration.vhost(arguments.text("name")).name
    await administration.change(
        *(delete(VhostLimitRow, vhost=name, name=limit) for limit in _named(arguments, OF_VHOSTS))
    )


def _named(arguments: Arguments, known: Collection[str]) -> Collection[str]:
    names = arguments.texts("limits")
    for name in names:
        if name != "all":
            _check_known(name, known)
    return known if not names or "all" in names else names


def _check_known(name: str, known: Collection[str]) -> None:
    if name not in known:
        raise invalid(f"Unrecognised limit '{name}'; known: {', '.join(sorted(known))}")
