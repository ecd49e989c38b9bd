"""Attacks with contents that are never whole, or come in the smallest pieces."""

from __future__ import annotations

import struct

from broker.wire.constants import FRAME_BODY, FRAME_HEADER
from broker.wire.frames import HEARTBEAT, frame, method_frame
from broker.wire.methods import BasicPublish
from broker.wire.properties import BasicProperties, encode_header
from harness.attacks.attack import Flood
from harness.attacks.non_reading_clients import fresh
from harness.attacks.raw_connection import RawConnection
from harness.clients.amqp_peer import CHANNEL_MAX

ANNOUNCED_BYTES = 128 << 20


def announcement(channel: int, size: int = ANNOUNCED_BYTES) -> bytes:
    """A publish whose body is still to come."""
    header = encode_header(size, BasicProperties())
    return method_frame(channel, BasicPublish("", "hostile.nobody", False, False)) + frame(
        FRAME_HEADER, channel, header
    )


class HalfBodies(Flood):
    """128 MiB announced on each channel there may be; `piece` bytes of each come now and then."""

    channels = CHANNEL_MAX
    piece = 60_000

    def prepare(self, connection: RawConnection) -> bytes:
        connection.tell(b"".join(map(announcement, range(1, self.channels + 1))))
        return b"".join(frame(FRAME_BODY, number, bytes(self.piece)) for number in range(1, self.channels + 1))

    def round(self) -> None:
        for _ in range(10):
            super().round()


class HalfBodiesByTheByte(HalfBodies):
    """The same, a byte at a time."""

    piece = 1


class SilentBodies(HalfBodies):
    """The same, and nothing ever comes."""

    def round(self) -> None:
        self.connection.press(HEARTBEAT)


class ViewsOfBodies(Flood):
    """Pieces that are just large enough to be kept where they lie, the rest of what they lie in being noise."""

    channels = 2

    def prepare(self, connection: RawConnection) -> bytes:
        connection.tell(announcement(1, 512 << 20))
        return frame(FRAME_BODY, 1, bytes(64 * 1024)) + HEARTBEAT * 24_000


class TinyFrames(Flood):
    """Messages whose bodies come by the byte."""

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.tiny", max_length=10)
        return announcement(1, 10_000) + (frame(FRAME_BODY, 1, b"x") * 10_000)


class EmptyFrames(Flood):
    """Body frames that bring nothing, for ever."""

    def prepare(self, connection: RawConnection) -> bytes:
        connection.tell(announcement(1))
        return frame(FRAME_BODY, 1, b"") * 30_000


class Heartbeats(Flood):
    """Nothing but heartbeats."""

    def prepare(self, connection: RawConnection) -> bytes:
        return HEARTBEAT * 30_000


class SingleBytes(Flood):
    """Heartbeats, each byte in a packet of its own."""

    def prepare(self, connection: RawConnection) -> bytes:
        self._at = 0
        return HEARTBEAT

    def round(self) -> None:
        for _ in range(1000):
            self.connection.tell(HEARTBEAT[self._at : self._at + 1])
            self._at = (self._at + 1) % len(HEARTBEAT)


class BrokenFrames(Flood):
    """Frames of no type, announced larger than allowed, with a wrong end: each ends the connection."""

    def prepare(self, connection: RawConnection) -> bytes:
        kinds = (
            b"\x09\x00\x01" + struct.pack(">I", 4) + bytes(4) + b"\xce",
            b"\x01\x00\x01" + struct.pack(">I", 1 << 31),
            b"\x01\x00\x01" + struct.pack(">I", 4) + bytes(4) + b"\x00",
            frame(FRAME_BODY, 1, b"unexpected"),
        )
        return kinds[self.rounds % len(kinds)]
