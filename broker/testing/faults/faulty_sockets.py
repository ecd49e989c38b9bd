"""Sockets that lose bytes, stall or trickle at the request of a test."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import trio

from broker.testing.faults.fault_subjects import of_connection
from broker.testing.faults.fault_table import OF_SOCKETS
from broker.testing.faults.requested_faults import Faults, RequestedFault, fired

if TYPE_CHECKING:
    from broker.session.connection import Connection

LOOK_SECONDS = 0.005


class FaultySocket(socket.socket):
    """The accepted socket of a client. Its `connection` is set a moment later."""

    connection: Connection | None = None

    def __init__(self, sock: socket.socket, faults: Faults) -> None:
        super().__init__(fileno=sock.detach())
        self.setblocking(False)
        self._faults = faults
        self._pass: dict[RequestedFault, int] = {}
        """Bytes that may still pass, by fault; those behind them are lost."""
        self.next_at = 0.0
        """Time at which `trickle` sends the next bytes."""

    def _faults_now(self) -> dict[str, RequestedFault]:
        if self.connection is None or OF_SOCKETS.isdisjoint(self._faults.names):
            return {}
        standing = self._faults.standing(OF_SOCKETS, of_connection(self.connection))
        return {_place(fault): fault for fault in reversed(standing)}

    def _happens(self, fault: RequestedFault) -> None:
        """Count and log a fault, once for each connection."""
        assert self.connection is not None
        if fault not in self._pass:
            self._pass[fault] = int(fault.parameters.get("after", 0))
            fault.fired += 1
            fired(fault, of_connection(self.connection))

    @property
    def stalled(self) -> bool:
        """True if nothing is read and nothing is sent."""
        return "stall" in self._faults_now()

    def _assert_goes(self, faults: dict[str, RequestedFault]) -> None:
        if "stall" in faults:
            self._happens(faults["stall"])
            raise BlockingIOError

    def _let_pass(self, fault: RequestedFault | None, size: int) -> int:
        """Return how many of `size` bytes pass."""
        if fault is None:
            return size
        self._happens(fault)
        passed = min(size, self._pass[fault])
        self._pass[fault] -= passed
        return passed

    def send(self, data: Any, flags: int = 0, /) -> int:
        faults = self._faults_now()
        if not faults:
            return super().send(data, flags)
        self._assert_goes(faults)
        view = memoryview(data)
        if "trickle" in faults:
            view = self._drops(faults["trickle"], view)
        passed = self._let_pass(faults.get("drop-bytes out"), len(view))
        if not passed:
            return len(view)  # all are lost, and the broker takes them for sent
        sent = super().send(view[:passed], flags)
        return len(view) if sent == passed < len(view) else sent

    def _drops(self, fault: RequestedFault, view: memoryview) -> memoryview:
        """Return the few bytes that may be sent now. Raises BlockingIOError if it is too early."""
        self._happens(fault)
        if trio.current_time() < self.next_at:
            raise BlockingIOError
        self.next_at = trio.current_time() + fault.parameters["milliseconds"] / 1000
        return view[: int(fault.parameters["bytes"]) or 1]

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        faults = self._faults_now()
        self._assert_goes(faults)
        data = super().recv(size, flags)
        return data[: self._arrived(faults, len(data))]

    def sendmsg(self, buffers: Iterable[Any], *_others: Any) -> int:
        return self.send(b"".join(buffers))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        faults = self._faults_now()
        self._assert_goes(faults)
        return self._arrived(faults, super().recv_into(buffer, nbytes, flags))

    def _arrived(self, faults: dict[str, RequestedFault], size: int) -> int:
        """Return the bytes left of `size` after drop faults. Raises BlockingIOError if all of some are lost; 0, the end
        of the stream, is returned."""
        passed = self._let_pass(faults.get("drop-bytes in"), size)
        if size and not passed:
            raise BlockingIOError
        return passed

    async def wait_goes(self) -> None:
        """Wait until it is not stalled. Raises ClosedResourceError."""
        while self.stalled:
            await trio.sleep(LOOK_SECONDS)
            if self.fileno() < 0:
                raise trio.ClosedResourceError("the socket is closed")


def _place(fault: RequestedFault) -> str:
    return f"{fault.name} {fault.parameters['direction']}" if "direction" in fault.parameters else fault.name


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
