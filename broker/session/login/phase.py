"""How far a connection has come: the states of channel 0."""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """How far a connection has come."""

    HEADER = auto()
    START = auto()
    TUNE = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


CAN_SAY_CLOSE = (Phase.OPENING, Phase.OPEN)
"""The phases in which an error is answered with connection.close; before, it is not (see `handshake`)."""
