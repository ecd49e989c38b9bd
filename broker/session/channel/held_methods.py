"""Handles the methods that channels held behind a gate or an alarm: one per channel and step, in background work.

A client can send megabytes behind one method that waits for the disk, and the end of an alarm frees thousands of
channels at one moment. All of them share one piece of background work, which takes the channels round robin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.entities.scheduling.background_work import MESSAGE_BYTES

if TYPE_CHECKING:
    from broker.entities.scheduling.background_work import BackgroundWork
    from broker.session.channel.channel import Channel


class HeldMethods:
    """The channels of a broker whose held methods can be handled now. Their sockets are not read meanwhile."""

    def __init__(self, background_work: BackgroundWork) -> None:
        self._background_work = background_work
        self._channels: dict[Channel, None] = {}
        self._working = False

    def add(self, channel: Channel, *, later: bool) -> None:
        """Add a channel. The work begins in this turn, or in the next one if `later`."""
        if channel in self._channels or not _may_go_on(channel):
            return
        self._channels[channel] = None
        channel.connection.busy_channels += 1
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
                channel.connection.busy_channels -= 1
                channel.connection.output.touch()  # the transport may read on
            yield MESSAGE_BYTES
        self._working = False


def _handle_first(channel: Channel) -> None:
    """Handle the first held method of a channel, unless it has to wait again."""
    if _may_go_on(channel):
        key, action, size = channel.held.popleft()
        channel.connection.hold(-size)
        channel.connection.guard(channel, key, action)


def _may_go_on(channel: Channel) -> bool:
    """Return whether the first held method can be handled: no gate, no alarm, and the client reads its answers."""
    if not channel.held or channel.gates or channel.ended:
        return False
    if channel.waits_for_alarm:
        channel.connection.block()
        return False
    return channel.room() > 0
