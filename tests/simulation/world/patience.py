"""Nobody waits for ever: alarms end with their cause, and then whoever publishes is heard and confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.scheduling.alarms import DISK
from tests.simulation.copies import Broken
from tests.simulation.simulated_client import HEARTBEAT_SECONDS, Client
from tests.simulation.world.disk import FREE_LIMIT_BYTES, PAGE_BYTES, SIZE_BYTES
from tests.simulation.world.process import LOOK

if TYPE_CHECKING:
    from tests.simulation.world.world import World

MINUTE = 60_000
PAGES_OF_REMOVALS = 16
"""Free pages into which removals fit, unless they are of more lanes than the disk has pages for."""
SILENCE_SECONDS = 2 * (2 * HEARTBEAT_SECONDS + LOOK / 1000)
"""After two intervals without a word what lay unread was a sign of life; after two more it was there before."""
SPARE_BYTES = 64 * PAGE_BYTES
"""Bytes that LMDB may need beside three times the bodies: records, half-filled pages, free ones that it may not use
yet."""


class Patience:
    """Since when, in milliseconds of the monotonic clock, there has been no reason to wait."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._roomy_since = self._undisturbed_since = self._removing_since = 0
        self._reasons = (True, True, True)

    def look(self) -> None:
        """Take note of what is a reason to wait now. A reason of the last look has lasted until this one."""
        world = self._world
        down = world.down or world.disk.slow > 1 or world.process.paused
        reasons = (
            down or (world.disk.others > 0 and self._is_short()),
            down or not self._has_room_for_removals(),
            down or world.process.short or world.process.no_room,
        )
        now, before, self._reasons = world.times.now, self._reasons, reasons
        lasting = [reason or earlier for reason, earlier in zip(reasons, before, strict=True)]
        self._roomy_since = now if lasting[0] else self._roomy_since
        self._removing_since = now if lasting[1] else self._removing_since
        self._undisturbed_since = now if lasting[2] else self._undisturbed_since

    def _has_room_for_removals(self) -> bool:
        """True if removals fit on the disk, with the ballast's room if need be."""
        disk = self._world.disk
        if not disk.others or self._world.process.stores.messages.space.has_ballast:
            return True
        return disk.free >= max(PAGES_OF_REMOVALS, disk.pages_of_removals) * PAGE_BYTES

    def _room(self) -> int:
        """Bytes that the disk could have for messages if it held no dead ones."""
        return SIZE_BYTES - self._world.disk.others

    def _is_short(self) -> bool:
        """Messages need more than that, beside definitions and the ballast."""
        promises = self._world.promises
        bodies = sum(len(copy.publication.body) for copy in promises.copies())
        bodies += sum(len(publication.body) for publication in promises.stream.sent.values())
        rest = self._room() - (FREE_LIMIT_BYTES + 3 * bodies + SPARE_BYTES)
        return rest < 0 or rest < self._world.disk.used_beside_messages

    def check(self) -> None:
        """Raise Broken for an alarm that stays, and for a client that waits longer than it has a reason to."""
        world, now = self._world, self._world.times.now
        if world.process.broker.alarms.is_raised(DISK) and now > self._roomy_since + 2 * MINUTE:
            raise Broken(f"the disk alarm stays, although there is room for {self._room()} bytes")
        for client in world.clients.values():
            if self.nothing_disturbs():
                self._check_client(client, now - 2 * MINUTE)
            self._check_purges(client, max(0, now - MINUTE // 2))

    def nothing_disturbs(self) -> bool:
        """There has been no reason to wait for two minutes."""
        return self._world.times.now > self._undisturbed_since + 2 * MINUTE

    def _check_purges(self, client: Client, before: int) -> None:
        for channel in client.channels.values():
            if channel.late or channel.closing or self._removing_since >= before:
                continue
            if 0 < channel.purging_since < before:
                raise Broken(f"a purge of {client.name}.{channel.number} is not on disk after half a minute")

    def _check_silence(self, client: Client) -> None:
        silent_for = self._world.times.monotonic() - max(client.line.said_at, self._undisturbed_since / 1000)
        if client.silent and not client.gone and client.line.connection.heartbeat and silent_for > SILENCE_SECONDS:
            raise Broken(f"{client.name} is silent for {silent_for:g} s and has not been given up")

    def _check_client(self, client: Client, before: int) -> None:
        if client.gone or client.closing or client.busy or not client.line.reading:
            self._check_silence(client)
            return
        if not client.line.taken_in and client.line.sent_at < before:
            raise Broken(f"{client.name} has not been read from for two minutes")
        for channel in client.channels.values():
            for publication in channel.unconfirmed.values():
                if publication.taken_at < before and not channel.closing:
                    raise Broken(f"message {publication.number} has not been answered for two minutes")
