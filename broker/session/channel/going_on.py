"""Channels that go on with the methods they held: some of these in each turn, however many there are.

A client can send megabytes behind one method that waits for the disk, and the end of an alarm sets thousands of
channels free at one moment. They go on together, as one piece of background work, with a method of each in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.entities.scheduling.background_work import MESSAGE_BYTES

if TYPE_CHECKING:
    from broker.entities.scheduling.background_work import BackgroundWork
    from broker.session.channel.channel import Channel


class GoingOn:
    """The channels of a broker that have held methods and need not wait any more. Their clients are not read from."""

    def __init__(self, background_work: BackgroundWork) -> None:
        self._background_work = background_work
        self._channels: dict[Channel, None] = {}
        self._working = False

    def add(self, channel: Channel, *, later: bool) -> None:
        """Have a channel go on: from now on, if no other does already, or from a `later` turn on."""
        if channel in self._channels or not _may_go_on(channel):
            return
        self._channels[channel] = None
        channel.connection.channels_going_on += 1
        if not self._working:
            self._working = True
            self._background_work.begin(self._steps(), later=later)

    def _steps(self) -> Iterator[int]:
        while self._channels:
            channel = next(iter(self._channels))
            _handle_first(channel)
            del self._channels[channel]
            if _may_go_on(channel):
                self._channels[channel] = None
            else:
                channel.connection.channels_going_on -= 1
                channel.connection.output.touch()  # the transport may read on
            yield MESSAGE_BYTES
        self._working = False


def _handle_first(channel: Channel) -> None:
    """Handle the first method that a channel holds, if it need not wait any more."""
    if _may_go_on(channel):
        key, action, size = channel.held.popleft()
        channel.connection.hold(-size)
        channel.connection.guard(channel, key, action)


def _may_go_on(channel: Channel) -> bool:
    """What it holds need not wait for a gate, for memory or disk, or for the client to read answers."""
    if not channel.held or channel.gates or channel.ended:
        return False
    if channel.waits_for_room:
        channel.connection.block()
        return False
    return channel.room() > 0
