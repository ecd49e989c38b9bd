"""The event of a change of definitions, for the event exchange."""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.credentials import without_credentials


class ChangeEvent(NamedTuple):
    """A routing key and headers. `by` is the acting user; None: whoever makes the change."""

    key: str
    headers: dict[str, Any]
    by: str | None = None


def parameter_set(vhost: str, component: str, name: str, value: object) -> ChangeEvent:
    """Return the event of a parameter that is set; passwords in its value are hidden."""
    headers = {"vhost": vhost, "component": component, "name": name, "value": without_credentials(value)}
    return ChangeEvent("parameter.set", headers)


def parameter_cleared(vhost: str, component: str, name: str) -> ChangeEvent:
    """Return the event of a parameter that is removed."""
    return ChangeEvent("parameter.cleared", {"vhost": vhost, "component": component, "name": name})
