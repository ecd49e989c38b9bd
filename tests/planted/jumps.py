"""Lets a test set the wall clock of a broker's process by signals."""

from __future__ import annotations

import signal
import time

JUMPS_SECONDS = {signal.SIGRTMIN: 5 * 3600.0, signal.SIGRTMAX: -12 * 3600.0}


def follow_signals() -> None:
    """From now on the wall clock goes forward 5 hours on SIGRTMIN and back 12 on SIGRTMAX."""
    real, ahead = time.time, [0.0]

    def jump(number: int, _frame: object) -> None:
        ahead[0] += JUMPS_SECONDS[signal.Signals(number)]

    time.time = lambda: real() + ahead[0]
    for number in JUMPS_SECONDS:
        signal.signal(number, jump)
