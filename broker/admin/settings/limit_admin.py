"""Limits of users and virtual hosts. What is over a new limit stays; the next one is refused."""

from __future__ import annotations

from collections.abc import Collection, Set

from broker.admin import erlang_notation
from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments, invalid
from broker.admin.protocol import ValidationFailed
from broker.entities.node.user_limits import OF_USERS, OF_VHOSTS
from storage.definitions.definition_changes import (
    DeleteUserLimit,
    DeleteVhostLimit,
    PutUserLimit,
    PutVhostLimit,
    UserLimitRow,
    VhostLimitRow,
)


async def set_user_limits(administration: Administration, arguments: Arguments) -> None:
    """Set some of a user's limits; the others stay."""
    name = administration.user(arguments.text("name")).name
    limits = checked(arguments.json("limits"), OF_USERS, "user-limits")
    await administration.change(*(PutUserLimit(UserLimitRow(name, *limit)) for limit in limits.items()))


async def clear_user_limits(administration: Administration, arguments: Arguments) -> None:
    """Lift some of a user's limits, or all."""
    name = administration.user(arguments.text("name")).name
    await administration.change(*(DeleteUserLimit(name, limit) for limit in _named(arguments, OF_USERS)))


async def set_vhost_limits(administration: Administration, arguments: Arguments) -> None:
    """Set a virtual host's limits; those that are not named are lifted, as in RabbitMQ (where a user's stay)."""
    name = administration.vhost(arguments.text("name")).name
    limits = _checked_of_vhost(arguments.json("limits"))
    lifted = administration.broker.user_limits.vhosts.get(name, {}).keys() - limits.keys()
    await administration.change(
        *(PutVhostLimit(VhostLimitRow(name, *limit)) for limit in limits.items()),
        *(DeleteVhostLimit(name, limit) for limit in sorted(lifted)),
    )


async def set_vhost_limit(administration: Administration, arguments: Arguments) -> None:
    """Set one limit of a virtual host; the others stay."""
    name = administration.vhost(arguments.text("name")).name
    limits = _checked_of_vhost({arguments.text("limit"): arguments.json("value")})
    await administration.change(*(PutVhostLimit(VhostLimitRow(name, *limit)) for limit in limits.items()))


async def clear_vhost_limits(administration: Administration, arguments: Arguments) -> None:
    """Lift some of a virtual host's limits, or all."""
    name = administration.vhost(arguments.text("name")).name
    await administration.change(*(DeleteVhostLimit(name, limit) for limit in _named(arguments, OF_VHOSTS)))


def checked(limits: object, known: Set[str], kind: str) -> dict[str, int]:
    """Limits by name. Raises AdministrationError `invalid`, in RabbitMQ's words, for what is none or no number."""
    problems, read = _read(limits, known, kind)
    if problems:
        raise invalid("; ".join(problems))
    return read


def _checked_of_vhost(limits: object) -> dict[str, int]:
    """The same of a virtual host, where they are a parameter. Raises ValidationFailed."""
    problems, read = _read(limits, OF_VHOSTS, "limits")
    if problems:
        raise ValidationFailed(problems)
    return read


def _read(limits: object, known: Set[str], kind: str) -> tuple[list[str], dict[str, int]]:
    """Everything that is wrong with limits, in RabbitMQ's order, or the limits."""
    if not isinstance(limits, dict):
        return [f"{kind} not a list {erlang_notation.term(limits)}"], {}
    unknown = {name: value for name, value in sorted(limits.items()) if name not in known}
    problems = [f"Unrecognised terms {erlang_notation.pairs(unknown)} in {kind}"] if unknown else []
    for name in sorted(known & limits.keys(), reverse=True):
        value = limits[name]
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
            problems.append(f"{name} should be a number, actually was {erlang_notation.term(value)}")
    return problems, limits


def _named(arguments: Arguments, known: Collection[str]) -> Collection[str]:
    names = arguments.texts("limits")
    for name in names:
        if name != "all":
            _check_known(name, known)
    return known if not names or "all" in names else names


def _check_known(name: str, known: Collection[str]) -> None:
    if name not in known:
        raise invalid(f"Unrecognised limit '{name}'; known: {', '.join(sorted(known))}")
