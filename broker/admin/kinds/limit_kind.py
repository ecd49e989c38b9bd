"""Limits of virtual hosts and of users. RabbitMQ keeps those of a virtual host as one parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from broker.admin.json_terms import binary_pairs, binary_term
from broker.admin.kinds.change_event import ChangeEvent, parameter_cleared, parameter_set
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.admin.protocol import ValidationFailed, invalid
from broker.entities.node.broker import Broker
from broker.entities.node.parameters import LIMITS, VHOST_LIMITS
from broker.entities.node.user_limits import OF_VHOSTS
from storage.definitions.definition_rows import Change, Delete, Put, UserLimitRow, VhostLimitRow, delete


def checked(limits: object, known: Set[str], kind: str) -> dict[str, int]:
    """Return limits by name. Raises AdministrationError `invalid`, in RabbitMQ's words, for unknown names and values
    that are not numbers."""
    problems, read = _read(limits, known, kind)
    if problems:
        raise invalid("; ".join(problems))
    return read


def checked_of_vhost(limits: object) -> dict[str, int]:
    """Return the limits of a virtual host, which RabbitMQ validates as a parameter. Raises ValidationFailed."""
    problems, read = _read(limits, OF_VHOSTS, "limits")
    if problems:
        raise ValidationFailed(problems)
    return read


def _read(limits: object, known: Set[str], kind: str) -> tuple[list[str], dict[str, int]]:
    """Return all problems of limits, in RabbitMQ's order, and the limits."""
    if not isinstance(limits, dict):
        return [f"{kind} not a list {binary_term(limits)}"], {}
    unknown = {name: value for name, value in sorted(limits.items()) if name not in known}
    problems = [f"Unrecognised terms {binary_pairs(unknown)} in {kind}"] if unknown else []
    for name in sorted(known & limits.keys(), reverse=True):
        value = limits[name]
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
            problems.append(f"{name} should be a number, actually was {binary_term(value)}")
    return problems, limits


def replacing(broker: Broker, vhost: str, limits: Mapping[str, int]) -> Iterator[Put | Delete]:
    """Yield the changes that replace a virtual host's limits: those that are not named any more are lifted."""
    yield from (Put(VhostLimitRow(vhost, *limit)) for limit in limits.items())
    lifted = broker.user_limits.vhosts.get(vhost, {}).keys() - limits.keys()
    yield from (delete(VhostLimitRow, vhost=vhost, name=name) for name in sorted(lifted))


def exported(broker: Broker) -> Iterator[dict[str, Any]]:
    """Yield the limits of each virtual host that has some, as the parameter that RabbitMQ keeps them in."""
    for vhost, limits in list(broker.user_limits.vhosts.items()):  # they may change while rows are sent
        if limits:
            yield {"vhost": vhost, "component": VHOST_LIMITS, "name": LIMITS, "value": limits}


# Effect


def _put_vhost_limit(broker: Broker, row: VhostLimitRow) -> None:
    broker.user_limits.vhosts.setdefault(row.vhost, {})[row.name] = row.value


def _delete_vhost_limit(broker: Broker, by: str, *, vhost: str, name: str) -> None:
    broker.user_limits.vhosts.get(vhost, {}).pop(name, None)


def _put_user_limit(broker: Broker, row: UserLimitRow) -> None:
    broker.user_limits.users.setdefault(row.user, {})[row.name] = row.value


def _delete_user_limit(broker: Broker, by: str, *, user: str, name: str) -> None:
    broker.user_limits.users.get(user, {}).pop(name, None)


# Events


class LimitChanges(NamedTuple):
    """The limits of one virtual host or user that are changed together: one event."""

    kind: type[VhostLimitRow | UserLimitRow]
    owner: str
    given: dict[str, int]
    lifted: set[str]


def together(changes: Iterable[Change]) -> list[Change | LimitChanges]:
    """Return changes in their order, with those of limits of one virtual host or user put together at the first."""
    found: list[Change | LimitChanges] = []
    limits: dict[object, LimitChanges] = {}
    for change in changes:
        made = _limit_changes(change)
        if made is None:
            found.append(change)
            continue
        known = limits.setdefault(made[:2], made)
        if known is made:
            found.append(made)
        else:
            known.given.update(made.given)
            known.lifted.update(made.lifted)
    return found


def _limit_changes(change: Change) -> LimitChanges | None:
    """Return the change of one limit; None for any other change."""
    if isinstance(change, Put) and isinstance(change.row, VhostLimitRow | UserLimitRow):
        owner, name, value = change.row
        return LimitChanges(type(change.row), owner, {name: value}, set())
    if isinstance(change, Delete) and issubclass(change.kind, VhostLimitRow | UserLimitRow):
        key = change.key
        return LimitChanges(change.kind, key["vhost" if change.kind is VhostLimitRow else "user"], {}, {key["name"]})
    return None


def limit_events(broker: Broker, changes: LimitChanges) -> Iterator[ChangeEvent]:
    """Yield the events of limits that are changed together, before they hold."""
    if changes.kind is VhostLimitRow:
        yield from _vhost_limit_events(broker, changes)
    else:
        yield from _user_limit_events(changes)


def _vhost_limit_events(broker: Broker, changes: LimitChanges) -> Iterator[ChangeEvent]:
    """The parameter is set to all limits that hold from now on, or cleared where all are lifted."""
    vhost, lifted = changes.owner, changes.lifted
    before = broker.user_limits.vhosts.get(vhost, {})
    if changes.given or (before and not lifted >= OF_VHOSTS):
        limits = {name: value for name, value in {**before, **changes.given}.items() if name not in lifted}
        yield parameter_set(vhost, VHOST_LIMITS, LIMITS, limits or [])
        yield ChangeEvent("vhost.limits.set", {**_NAMED, **limits})
    elif before:
        yield from vhost_limits_cleared(vhost)


def vhost_limits_cleared(vhost: str) -> Iterator[ChangeEvent]:
    """Yield the events of a virtual host that has no limits any more."""
    yield parameter_cleared(vhost, VHOST_LIMITS, LIMITS)
    yield ChangeEvent("vhost.limits.cleared", _NAMED)


def _user_limit_events(changes: LimitChanges) -> Iterator[ChangeEvent]:
    named = {**_NAMED, "username": changes.owner}
    if changes.given:
        yield ChangeEvent("user.limits.set", {**named, **changes.given})
    if changes.lifted:
        yield ChangeEvent("user.limits.cleared", named)


_NAMED = {"name": LIMITS}
VHOST_LIMIT_KIND = DefinitionKind(VhostLimitRow, _put_vhost_limit, _delete_vhost_limit)
USER_LIMIT_KIND = DefinitionKind(UserLimitRow, _put_user_limit, _delete_user_limit)
