"""Waits for the sockets of all clients in one task, and has their input handled.

trio's own wait costs a call of `epoll_ctl` and a switch to a task for each piece of input, which is more than handling
a short one. Here a socket is registered once, with a function that handles its input; the client's own task waits
meanwhile, and goes on when something has to be waited for.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

import trio


class ClientSockets:
    """The watched sockets. Their functions are called in the event loop, one after the other, while there is input."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, _Watched] = {}

    async def handle_input(self, sock: socket.socket, handle: Callable[[], bool]) -> None:
        """Have `handle` called whenever there is something to read, or the client has gone, until it returns False.

        Raises what it raises.
        """
        descriptor = sock.fileno()
        assert descriptor not in self._watched, f"socket {descriptor} is watched already"
        watched = self._watched[descriptor] = _Watched(handle)
        self._epoll.register(descriptor, select.EPOLLIN)
        try:
            await watched.over()
        finally:
            del self._watched[descriptor]
            self._epoll.unregister(descriptor)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for descriptor, _events in self._epoll.poll(0):
                watched = self._watched.get(descriptor)
                if watched is not None:
                    watched.ready()


class _Watched:
    """One socket, and the task that waits until its input cannot be handled at once."""

    def __init__(self, handle: Callable[[], bool]) -> None:
        self._handle = handle
        self._waiting: trio.lowlevel.Task | None = None
        self._error: Exception | None = None

    async def over(self) -> None:
        self._waiting = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._cancelled)
        if self._error is not None:
            raise self._error

    def ready(self) -> None:
        if self._waiting is None:  # cancelled, by the input of another client perhaps: not read any more
            return
        try:
            goes_on = self._handle()
        except Exception as error:
            self._error, goes_on = error, False
        if not goes_on and self._waiting is not None:  # handling it may have ended the wait
            trio.lowlevel.reschedule(self._waiting)
            self._waiting = None

    def _cancelled(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._waiting = None
        return trio.lowlevel.Abort.SUCCEEDED
