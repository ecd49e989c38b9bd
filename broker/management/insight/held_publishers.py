"""Alarms of memory and disk, a disk that hangs, and the publishers that alarms hold."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from typing import Any

from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.management.insight.crash_preview import LISTED_MAX, named
from broker.management.management_api import ManagementApi
from broker.session.connection import Connection


def alarms(api: ManagementApi) -> dict[str, Any]:
    """The memory and disk alarms, with the connections whose publishes they hold back."""
    status, raised = api.status(), api.broker.alarms
    held = [each for each in api.registry.network_connections if each.blocked or each.held_bytes]
    return {
        "raised": raised.raised,
        "reason": raised.reason if raised.raised else "",
        "memory": {
            "raised": raised.is_raised(MEMORY),
            "used": status["memory"]["used_bytes"],
            "limit": status["memory"]["limit_bytes"],
        },
        "disk": {
            "raised": raised.is_raised(DISK),
            "free": status["disk"]["free_bytes"],
            "limit": status["disk"]["limit_bytes"],
            "hangs": status["disk"]["hangs"],
        },
        "held_connections": len(held),
        "held_bytes": sum(each.held_bytes for each in held),
        "held": [{**named(each), "blocked": each.blocked, "held_bytes": each.held_bytes} for each in _most_held(held)],
    }


def _most_held(held: Iterable[Connection]) -> list[Connection]:
    return nlargest(LISTED_MAX, held, key=lambda each: each.held_bytes)
