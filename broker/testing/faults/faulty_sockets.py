"""Sockets that lose bytes, stall or trickle, where a test has ordered it."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import trio

from broker.testing.faults.fault_orders import FaultOrder, Faults, fired
from broker.testing.faults.fault_subjects import of_connection
from broker.testing.faults.fault_table import OF_SOCKETS

if TYPE_CHECKING:
    from broker.session.connection import Connection

LOOK_SECONDS = 0.005


class FaultySocket(socket.socket):
    """The accepted socket of a client. Its `connection` is known a moment after it."""

    connection: Connection | None = None

    def __init__(self, sock: socket.socket, faults: Faults) -> None:
        super().__init__(fileno=sock.detach())
        self.setblocking(False)
        self._faults = faults
        self._pass: dict[FaultOrder, int] = {}
        """How many bytes may still pass, of each order to lose those behind them."""
        self.next_at = 0.0
        """When the next few bytes may be sent."""

    def _orders(self) -> dict[str, FaultOrder]:
        if self.connection is None or OF_SOCKETS.isdisjoint(self._faults.names):
            return {}
        standing = self._faults.standing(OF_SOCKETS, of_connection(self.connection))
        return {_place(order): order for order in reversed(standing)}

    def _happens(self, order: FaultOrder) -> None:
        """Count it, and have it in the log, once for each connection."""
        assert self.connection is not None
        if order not in self._pass:
            self._pass[order] = int(order.parameters.get("after", 0))
            order.fired += 1
            fired(order, of_connection(self.connection))

    @property
    def stalled(self) -> bool:
        """Nothing is read and nothing is sent."""
        return "stall" in self._orders()

    def _assert_goes(self, orders: dict[str, FaultOrder]) -> None:
        if "stall" in orders:
            self._happens(orders["stall"])
            raise BlockingIOError

    def _let_pass(self, order: FaultOrder | None, size: int) -> int:
        """How many of so many bytes pass."""
        if order is None:
            return size
        self._happens(order)
        passed = min(size, self._pass[order])
        self._pass[order] -= passed
        return passed

    def send(self, data: Any, flags: int = 0, /) -> int:
        orders = self._orders()
        if not orders:
            return super().send(data, flags)
        self._assert_goes(orders)
        view = memoryview(data)
        if "trickle" in orders:
            view = self._drops(orders["trickle"], view)
        passed = self._let_pass(orders.get("drop-bytes out"), len(view))
        if not passed:
            return len(view)  # lost, and the broker does not know
        sent = super().send(view[:passed], flags)
        return len(view) if sent == passed < len(view) else sent

    def _drops(self, order: FaultOrder, view: memoryview) -> memoryview:
        """The few bytes that may be sent now. Raises BlockingIOError if it is not yet time."""
        self._happens(order)
        if trio.current_time() < self.next_at:
            raise BlockingIOError
        self.next_at = trio.current_time() + order.parameters["milliseconds"] / 1000
        return view[: int(order.parameters["bytes"]) or 1]

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        orders = self._orders()
        self._assert_goes(orders)
        data = super().recv(size, flags)
        return data[: self._arrived(orders, len(data))]

    def sendmsg(self, buffers: Iterable[Any], *_others: Any) -> int:
        return self.send(b"".join(buffers))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        orders = self._orders()
        self._assert_goes(orders)
        return self._arrived(orders, super().recv_into(buffer, nbytes, flags))

    def _arrived(self, orders: dict[str, FaultOrder], size: int) -> int:
        """How many of so many bytes have come. Raises BlockingIOError where all are lost; the client's end is none."""
        passed = self._let_pass(orders.get("drop-bytes in"), size)
        if size and not passed:
            raise BlockingIOError
        return passed

    async def wait_goes(self) -> None:
        """Return when it is not stalled. Raises ClosedResourceError."""
        while self.stalled:
            await trio.sleep(LOOK_SECONDS)
            if self.fileno() < 0:
                raise trio.ClosedResourceError("the socket is closed")


def _place(order: FaultOrder) -> str:
    return f"{order.name} {order.parameters['direction']}" if "direction" in order.parameters else order.name


async def readable(sock: socket.socket) -> None:
    """Wait until there is something to read."""
    if isinstance(sock, FaultySocket):
        await sock.wait_goes()
    await trio.lowlevel.wait_readable(sock)


async def writable(sock: socket.socket) -> None:
    """Wait until something can be sent."""
    if isinstance(sock, FaultySocket):
        await sock.wait_goes()
        await trio.sleep_until(sock.next_at)
    await trio.lowlevel.wait_writable(sock)
