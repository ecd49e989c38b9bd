"""The node: what its process says of itself, and what of it changes while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.node.memory_parts import memory_parts
from broker.admin.protocol import invalid
from broker.admin.views.listing import Row, View, cells
from broker.entities.scheduling.alarms import DISK, MEMORY

LOG_FORMS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical", "none")


def environment(administration: Administration, arguments: Arguments) -> dict[str, Any]:
    """The settings that the broker runs with, without secrets."""
    return administration.process.settings()


async def seal_events(administration: Administration, arguments: Arguments) -> dict[str, bool]:
    """Have readers of the event log see what has happened so far."""
    return {"sealed": await administration.process.seal_events()}


async def memory(administration: Administration, arguments: Arguments) -> dict[str, Any]:
    """What takes how much memory, in bytes."""
    return await memory_parts(administration)


async def set_vm_memory_high_watermark(administration: Administration, arguments: Arguments) -> None:
    """Have publishers wait above a `fraction` of the memory or so many `bytes`, until the next start."""
    if arguments.given("fraction") == arguments.given("bytes"):
        raise invalid("expected a fraction, or a number of bytes")
    fraction = arguments.number("fraction", 1) if arguments.given("fraction") else None
    size = 0 if fraction is not None else int(arguments.number("bytes"))
    administration.process.limit_memory(fraction, size)


async def set_disk_free_limit(administration: Administration, arguments: Arguments) -> None:
    """Have publishers wait below so many `bytes` of free disk, or below a multiple of the memory: `mem_relative`."""
    if arguments.given("mem_relative") == arguments.given("bytes"):
        raise invalid("expected a multiple of the memory, or a number of bytes")
    size = arguments.number("bytes") if arguments.given("bytes") else _of_memory(administration, arguments)
    administration.process.limit_disk(int(size))


def _of_memory(administration: Administration, arguments: Arguments) -> float:
    return arguments.number("mem_relative") * administration.process.memory_total


async def set_log_level(administration: Administration, arguments: Arguments) -> None:
    """Log from this level on, until the next start."""
    level = arguments.text("level")
    if level not in LOG_LEVELS:
        raise invalid(f"level {level} is not supported. Try one of {', '.join(LOG_LEVELS)}")
    administration.process.log_level(level)


async def set_log_form(administration: Administration, arguments: Arguments) -> None:
    """Write the log in another form, until the next start."""
    form = arguments.text("form")
    if form not in LOG_FORMS:
        raise invalid(f"form {form} is not supported. Try one of {', '.join(LOG_FORMS)}")
    administration.process.log_form(form)


async def stop(administration: Administration, arguments: Arguments) -> None:
    """Have the broker end, as on SIGTERM."""
    administration.process.stop()


def _listeners(administration: Administration, arguments: Arguments) -> Iterator[Row]:
    return iter(administration.process.listeners())


def _certificates(administration: Administration, arguments: Arguments) -> Iterator[Row]:
    return iter(administration.process.certificates())


def _alarms(administration: Administration, arguments: Arguments) -> Iterator[Row]:
    raised = [name for name in (MEMORY, DISK) if administration.broker.alarms.is_raised(name)]
    return iter([{"node": administration.process.node_name, "resource": name} for name in raised])


def _auth_attempts(administration: Administration, arguments: Arguments) -> Iterator[Row]:
    """By protocol; none of a protocol that was not used."""
    return (
        {
            "protocol": protocol,
            "auth_attempts": logins.succeeded + logins.failed,
            "auth_attempts_failed": logins.failed,
            "auth_attempts_succeeded": logins.succeeded,
        }
        for protocol, logins in administration.broker.statistics.logins.items()
    )


def reset_auth_attempts(administration: Administration, arguments: Arguments) -> None:
    """Count attempts to log in anew."""
    for logins in administration.broker.statistics.logins.values():
        logins.reset()


LISTENERS = View(_listeners, cells("node", "interface", "port", "protocol", "purpose"))
CERTIFICATES = View(_certificates, cells("file", "subject", "until"))
ALARMS = View(_alarms, cells("node", "resource"))
AUTH_ATTEMPTS = View(
    _auth_attempts, cells("protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")
)
