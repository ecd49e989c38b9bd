"""A byte stream cut into frames, as a client does it."""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.constants import FRAME_END
from broker.wire.frames import FRAME_START


class Frame(NamedTuple):
    """One frame without its end octet."""

    kind: int
    channel: int
    payload: bytes


class FrameReader:
    """Takes whatever has arrived, and keeps what is not a whole frame yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. An end octet that is none is a mistake of the broker's."""
        data, at, frames = self._rest + data, 0, []
        while len(data) - at >= FRAME_START.size:
            kind, channel, size = FRAME_START.unpack_from(data, at)
            start = at + FRAME_START.size
            if start + size >= len(data):
                break
            assert data[start + size] == FRAME_END, f"a frame of type {kind} ends in {data[start + size]:#04x}"
            frames.append(Frame(kind, channel, data[start : start + size]))
            at = start + size + 1
        self._rest = data[at:]
        return frames
