"""Faults that happen when they are ordered, to what is there: consumers, channels, connections, alarms."""

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
from broker.testing.faults.fault_orders import FaultOrder, Subject, fired
from broker.testing.faults.fault_subjects import of_channel, of_connection
from broker.testing.faults.fault_table import NOW, STANDING
from broker.testing.faults.faulty_confirms import FaultyConfirms
from broker.testing.faults.faulty_frames import close_channel, close_connection
from broker.wire import methods

if TYPE_CHECKING:
    from broker.server.resource_alarms import ResourceWatch

EVERYTHING = 1 << 62


class Victim(NamedTuple):
    """What a fault may happen to, and how."""

    subject: Subject
    strike: Callable[[], None]


class PresentFaults:
    """Begins and ends faults that are not waited for. `end_turn` sends what they say."""

    def __init__(self, registry: Registry, resources: ResourceWatch, end_turn: Callable[[], None]) -> None:
        self._registry = registry
        self._resources = resources
        self._end_turn = end_turn
        self._blocked: dict[FaultOrder, list[Connection]] = {}
        self._alarms: list[FaultOrder] = []

    def begin(self, order: FaultOrder) -> None:
        """A fault is ordered. Raises AdministrationError `not_found` when there is nothing it could happen to now."""
        victims = self._victims(order)
        if victims is not None:
            self._strike(order, list(victims))
        self._end_turn()

    def _strike(self, order: FaultOrder, victims: list[Victim]) -> None:
        fitting = [victim for victim in victims if order.fits(victim.subject)]
        if not fitting:
            raise not_found(f"fault {order.name}: nothing that is there now fits, of {len(victims)}")
        for victim in fitting:
            if order.takes():
                fired(order, victim.subject)
                victim.strike()
        if order.name not in STANDING:
            order.left = 0

    def _victims(self, order: FaultOrder) -> Iterator[Victim] | None:
        """What is there now that the fault may happen to; None where it happens later."""
        match order.name:
            case "memory-alarm" | "disk-alarm":
                return iter([Victim({}, partial(self._raise, order))])
            case "block-connections":
                return self._connections(lambda connection: self._block(order, connection))
            case "cancel-consumer":
                return self._consumers()
            case "close-connection" if order.parameters["on"] == NOW:
                return self._connections(lambda connection: close_connection(connection, order))
            case "close-channel" if order.parameters["on"] == NOW:
                return self._channels(lambda channel: _close_channel(channel, order))
        return None

    def end(self, order: FaultOrder) -> None:
        """A fault is lifted."""
        if order in self._alarms:
            self._alarms.remove(order)
            self._resources.restore_limits()
            self._set_limits()
        for connection in self._blocked.pop(order, []):
            if not connection.broker.alarms.raised:
                connection.unblock()
        for channel in self._open_channels():
            if isinstance(channel.confirms, FaultyConfirms):
                channel.confirms.let_go(order)
        self._end_turn()

    def _raise(self, order: FaultOrder) -> None:
        self._alarms.append(order)
        self._set_limits()

    def _set_limits(self) -> None:
        """Let memory or disk, or both, be short."""
        names = {order.name for order in self._alarms}
        if "memory-alarm" in names:
            self._resources.limit_memory(None, 0)
        if "disk-alarm" in names:
            self._resources.limit_disk(EVERYTHING)

    def _block(self, order: FaultOrder, connection: Connection) -> None:
        connection.block()
        self._blocked.setdefault(order, []).append(connection)

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


def _close_channel(channel: Channel, order: FaultOrder) -> None:
    assert isinstance(channel.connection, Connection)
    close_channel(channel.connection, channel.number, order)


def _cancel(channel: Channel, consumer: Consumer) -> None:
    """End a consumer as the end of its queue does; what is out with it stays there."""
    channel.end_consumer(consumer)
    if channel.connection.knows("consumer_cancel_notify"):
        channel.send(methods.BasicCancel(consumer.tag, no_wait=True))
