"""The states of channel 0."""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """The method that a connection expects next on channel 0, or OPEN, or CLOSING."""

    HEADER = auto()
    START = auto()
    TUNE = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


CAN_SAY_CLOSE = (Phase.OPENING, Phase.OPEN)
"""Phases in which an error is answered with connection.close; before them the socket is just closed (`handshake`)."""
