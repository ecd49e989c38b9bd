"""Faults that happen at their request, to existing consumers, channels and connections, or as alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.admin.protocol import not_found
from broker.entities.queues.consumer_prefetch import Consumer
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.login.phase import Phase
from broker.session.registry import Registry
from broker.testing.faults.fault_subjects import of_channel, of_connection
from broker.testing.faults.fault_table import NOW, STANDING
from broker.testing.faults.faulty_confirms import FaultyConfirms
from broker.testing.faults.faulty_frames import close_channel, close_connection
from broker.testing.faults.requested_faults import RequestedFault, Subject, fired
from broker.wire import methods

if TYPE_CHECKING:
    from broker.server.resource_alarms import ResourceWatch

EVERYTHING = 1 << 62


class Victim(NamedTuple):
    """A subject of a fault, and the function that makes the fault happen to it."""

    subject: Subject
    strike: Callable[[], None]


class PresentFaults:
    """Begins and ends faults that happen at once. `end_turn` sends the methods that they cause."""

    def __init__(self, registry: Registry, resources: ResourceWatch, end_turn: Callable[[], None]) -> None:
        self._registry = registry
        self._resources = resources
        self._end_turn = end_turn
        self._blocked: dict[RequestedFault, list[Connection]] = {}
        self._alarms: list[RequestedFault] = []

    def begin(self, fault: RequestedFault) -> None:
        """Make a requested fault happen, if it is one that happens at once. Raises AdministrationError `not_found` if
        nothing matches its scope now."""
        victims = self._victims(fault)
        if victims is not None:
            self._strike(fault, list(victims))
        self._end_turn()

    def _strike(self, fault: RequestedFault, victims: list[Victim]) -> None:
        fitting = [victim for victim in victims if fault.fits(victim.subject)]
        if not fitting:
            raise not_found(f"fault {fault.name}: nothing that is there now fits, of {len(victims)}")
        for victim in fitting:
            if fault.takes():
                fired(fault, victim.subject)
                victim.strike()
        if fault.name not in STANDING:
            fault.left = 0

    def _victims(self, fault: RequestedFault) -> Iterator[Victim] | None:
        """Return the subjects that exist now; None if the fault happens later."""
        match fault.name:
            case "memory-alarm" | "disk-alarm":
                return iter([Victim({}, partial(self._raise, fault))])
            case "block-connections":
                return self._connections(lambda connection: self._block(fault, connection))
            case "cancel-consumer":
                return self._consumers()
            case "close-connection" if fault.parameters["on"] == NOW:
                return self._connections(lambda connection: close_connection(connection, fault))
            case "close-channel" if fault.parameters["on"] == NOW:
                return self._channels(lambda channel: _close_channel(channel, fault))
        return None

    def end(self, fault: RequestedFault) -> None:
        """Undo a lifted fault."""
        if fault in self._alarms:
            self._alarms.remove(fault)
            self._resources.restore_limits()
            self._set_limits()
        for connection in self._blocked.pop(fault, []):
            if not connection.broker.alarms.raised:
                connection.unblock()
        for channel in self._open_channels():
            if isinstance(channel.confirms, FaultyConfirms):
                channel.confirms.let_go(fault)
        self._end_turn()

    def _raise(self, fault: RequestedFault) -> None:
        self._alarms.append(fault)
        self._set_limits()

    def _set_limits(self) -> None:
        """Raise the memory or disk alarm, or both, by their limits."""
        names = {fault.name for fault in self._alarms}
        if "memory-alarm" in names:
            self._resources.limit_memory(None, 0)
        if "disk-alarm" in names:
            self._resources.limit_disk(EVERYTHING)

    def _block(self, fault: RequestedFault, connection: Connection) -> None:
        connection.block()
        self._blocked.setdefault(fault, []).append(connection)

    def _open_connections(self) -> list[Connection]:
        return [connection for connection in self._registry.network_connections if connection.phase is Phase.OPEN]

    def _open_channels(self) -> list[Channel]:
        channels = [channel for connection in self._open_connections() for channel in connection.channels.values()]
        return [channel for channel in channels if not channel.closing]

    def _connections(self, strike: Callable[[Connection], None]) -> Iterator[Victim]:
        for connection in self._open_connections():
            yield Victim(of_connection(connection), partial(strike, connection))

    def _channels(self, strike: Callable[[Channel], None]) -> Iterator[Victim]:
        for channel in self._open_channels():
            yield Victim(of_channel(channel), partial(strike, channel))

    def _consumers(self) -> Iterator[Victim]:
        for channel in self._open_channels():
            for consumer in list(channel.consumers.values()):
                subject = {**of_channel(channel), "queue": consumer.queue.name, "consumer_tag": consumer.tag}
                yield Victim(subject, partial(_cancel, channel, consumer))


def _close_channel(channel: Channel, fault: RequestedFault) -> None:
    assert isinstance(channel.connection, Connection)
    close_channel(channel.connection, channel.number, fault)


def _cancel(channel: Channel, consumer: Consumer) -> None:
    """Cancel a consumer as the deletion of its queue does; its deliveries stay unacknowledged."""
    channel.end_consumer(consumer)
    if channel.connection.knows("consumer_cancel_notify"):
        channel.send(methods.BasicCancel(consumer.tag, no_wait=True))
