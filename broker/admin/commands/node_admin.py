"""The node: its state, what changes while it runs, backups, and requests of tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import AdminChange, LongQuestion, Question, RowList, Text
from broker.admin.commands.argument_values import named, number, table
from broker.admin.protocol import AdministrationError, invalid

if TYPE_CHECKING:
    from broker.admin.administration import Administration

LOG_FORMS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical", "none")


class Ping(Question):
    """Answer, which takes a running event loop."""

    def answer(self, administration: Administration) -> str:
        return "pong"


class ShowVersion(Question):
    """Show the node's name, and the version and the series of RabbitMQ that it stands for; and `stopped`: clients are
    not served, by StopApplication."""

    def answer(self, administration: Administration) -> dict[str, str | bool]:
        return {
            "stopped": administration.process.application_stopped,
            "node": administration.process.node_name,
            "rabbitmq_version": administration.registry.settings.version,
            "series": administration.broker.personality.series_name,
        }


class Status(Question):
    """Show version, addresses, alarms, memory, disk, totals. Sizes are bytes, times seconds."""

    def answer(self, administration: Administration) -> dict[str, Any]:
        standby = {} if administration.standby is None else {"standby": administration.standby.state()}
        return {**administration.status(), **standby, "totals": _totals(administration)}


def _totals(administration: Administration) -> dict[str, int]:
    connections = administration.registry.network_connections
    vhosts = administration.broker.vhosts.values()
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    return {
        "connections": len(connections),
        "channels": sum(len(connection.channels) for connection in connections),
        "vhosts": len(vhosts),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": len(queues),
        "consumers": sum(len(queue.consumers) for queue in queues),
        "messages_ready": sum(queue.ready for queue in queues),
        "messages_unacknowledged": sum(queue.unacked for queue in queues),
    }


class Environment(Question):
    """Show the settings that the broker runs with, without secrets."""

    def answer(self, administration: Administration) -> dict[str, Any]:
        return administration.process.settings()


class Memory(LongQuestion):
    """Show memory by its use, in bytes."""

    async def answer(self, administration: Administration) -> dict[str, Any]:
        from broker.admin.node.memory_parts import memory_uses

        return await memory_uses(administration)


class MessageSizes(Question):
    """Count published messages by the bytes of their bodies: up to each bound, and above all of them."""

    def answer(self, administration: Administration) -> list[int]:
        return administration.broker.statistics.message_sizes.counts


class ListListeners(RowList):
    """List the addresses that clients connect to."""

    row_columns: ClassVar[tuple[str, ...]] = ("node", "interface", "port", "protocol", "purpose")

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        return administration.process.listeners()


class ListCertificates(RowList):
    """List the certificates in use."""

    row_columns: ClassVar[tuple[str, ...]] = ("file", "subject", "until")

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        return administration.process.certificates()


class ListAlarms(RowList):
    """List the alarms that are raised."""

    row_columns: ClassVar[tuple[str, ...]] = ("node", "resource")

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        from broker.entities.scheduling.alarms import DISK, MEMORY

        raised = [name for name in (MEMORY, DISK) if administration.broker.alarms.is_raised(name)]
        return [{"node": administration.process.node_name, "resource": name} for name in raised]


class SetVmMemoryHighWatermark(AdminChange):
    """Block publishers above a fraction of the memory, or above a number of bytes, until the next start."""

    log_words: ClassVar[str] = "memory limit is set until the next start"
    fraction: int | float | None = None
    bytes: int | float | None = None

    async def apply(self, administration: Administration) -> None:
        if self.fraction is not None and self.bytes is None:
            administration.process.limit_memory(number(self.fraction, "fraction", 1), 0)
        elif self.bytes is not None and self.fraction is None:
            administration.process.limit_memory(None, int(number(self.bytes, "bytes")))
        else:
            raise invalid("expected a fraction, or a number of bytes")


class SetDiskFreeLimit(AdminChange):
    """Block publishers below a number of bytes of free disk, or below a multiple of the memory."""

    log_words: ClassVar[str] = "limit of free disk is set until the next start"
    mem_relative: int | float | None = None
    bytes: int | float | None = None

    async def apply(self, administration: Administration) -> None:
        process = administration.process
        if self.bytes is not None and self.mem_relative is None:
            process.limit_disk(int(number(self.bytes, "bytes")))
        elif self.mem_relative is not None and self.bytes is None:
            process.limit_disk(int(number(self.mem_relative, "mem_relative") * process.memory_total))
        else:
            raise invalid("expected a multiple of the memory, or a number of bytes")


class RaiseAlarm(AdminChange):
    """Block publishers as if memory or disk were short, until the alarm is cleared or the next start."""

    log_words: ClassVar[str] = "{resource} alarm is raised by hand until the next start"
    resource: Text

    async def apply(self, administration: Administration) -> None:
        administration.process.hold_alarm(_resource(self.resource), on=True)


class ClearAlarm(AdminChange):
    """Take back an alarm that was raised by hand; it stays while memory or disk is short."""

    log_words: ClassVar[str] = "{resource} alarm is no longer raised by hand"
    resource: Text

    async def apply(self, administration: Administration) -> None:
        administration.process.hold_alarm(_resource(self.resource), on=False)


def _resource(name: str) -> str:
    from broker.entities.scheduling.alarms import DISK, MEMORY

    if name not in (MEMORY, DISK):
        raise invalid(f"argument resource: expected {MEMORY} or {DISK}")
    return name


class MonitorDisk(AdminChange):
    """Check the free disk space, or leave the disk alarm as it is until the next start."""

    log_words: ClassVar[str] = "monitoring of free disk space is set until the next start: {on}"
    on: bool

    async def apply(self, administration: Administration) -> None:
        administration.process.monitor_disk(on=self.on)


class ResetStatistics(AdminChange):
    """Drop the samples of the management API. Counters stay."""

    log_words: ClassVar[str] = "samples of the management API are dropped"

    async def apply(self, administration: Administration) -> None:
        await administration.statistics.forget()


class SetLogLevel(AdminChange):
    """Log from this level on, until the next start."""

    of_process: ClassVar[bool] = True
    log_words: ClassVar[str] = "log level is {level} until the next start"
    level: Text

    async def apply(self, administration: Administration) -> None:
        if self.level not in LOG_LEVELS:
            raise invalid(f"level {self.level} is not supported. Try one of {', '.join(LOG_LEVELS)}")
        administration.process.log_level(self.level)


class SetLogForm(AdminChange):
    """Write the log as text or as JSON, until the next start."""

    of_process: ClassVar[bool] = True
    log_words: ClassVar[str] = "log is written as {form} until the next start"
    form: Text

    async def apply(self, administration: Administration) -> None:
        if self.form not in LOG_FORMS:
            raise invalid(f"form {self.form} is not supported. Try one of {', '.join(LOG_FORMS)}")
        administration.process.log_form(self.form)


class Stop(AdminChange):
    """Stop the broker, as SIGTERM does."""

    of_process: ClassVar[bool] = True
    log_words: ClassVar[str] = "the broker is to stop"

    async def apply(self, administration: Administration) -> None:
        administration.process.stop()


class StopApplication(AdminChange):
    """Close all listeners and connections, as rabbitmqctl's stop_app does; the process and its stores stay."""

    log_words: ClassVar[str] = "listeners and connections are closed until rabbitmqctl start_app"

    async def apply(self, administration: Administration) -> None:
        await administration.process.stop_application()


class StartApplication(AdminChange):
    """Start the broker again in its process, after StopApplication."""

    log_words: ClassVar[str] = "the broker starts again in this process, if it was stopped"

    async def apply(self, administration: Administration) -> None:
        administration.process.start_application()


class SealEvents(LongQuestion):
    """Make all events so far visible to readers of the event log."""

    async def answer(self, administration: Administration) -> dict[str, bool]:
        return {"sealed": await administration.process.seal_events()}


class ShipTo(AdminChange):
    """Ship both stores to a second place, until the broker stops."""

    log_words: ClassVar[str] = "the store is shipped to {to} until the next start"
    to: Text

    async def apply(self, administration: Administration) -> None:
        place = named(self.to, "to")
        if "\0" in place:
            raise invalid("argument to: holds a zero byte")
        await administration.process.ship_to(place)


class ShipOff(AdminChange):
    """Ship no longer, after ShipTo."""

    log_words: ClassVar[str] = "the store is no longer shipped"

    async def apply(self, administration: Administration) -> None:
        await administration.process.ship_off()


class Backup(LongQuestion):
    """Copy both stores into a new directory, while the broker runs."""

    directory: Text

    async def answer(self, administration: Administration) -> None:
        directory = named(self.directory, "directory")
        if "\0" in directory:
            raise invalid("argument directory: holds a zero byte")
        standby = administration.standby
        await (administration.copy_stores if standby is None else standby.copy_stores)(Path(directory))


class Promote(LongQuestion):
    """Make a standby the broker: it fences the present owner of the place that it follows, and reads the rest there.

    With `without_place` also if the place does not answer.
    """

    without_place: bool = False

    async def answer(self, administration: Administration) -> dict[str, Any]:
        if administration.standby is None:
            raise AdministrationError("failed", "this is the broker already: there is nothing to promote")
        return await administration.standby.promote(without_place=self.without_place)


# Tests


class RequestOfTest(LongQuestion):
    """Carry out a request of a test. Raises AdministrationError `refused` if the settings do not allow them."""

    name_on_wire: ClassVar[str] = "testing"

    order: Text
    arguments: object = None

    async def answer(self, administration: Administration) -> object:
        from broker.admin.administration import TESTING_OFF

        if administration.testing is None:
            raise AdministrationError("refused", TESTING_OFF)
        return await administration.testing.carry_out(self.order, table(self.arguments, "arguments"))
