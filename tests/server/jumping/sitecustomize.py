"""Lets a test set the wall clock of a broker's process by signals. Python imports this at its start from PYTHONPATH."""

from __future__ import annotations

import signal
import time

JUMPS_SECONDS = {signal.SIGUSR1: 5 * 3600.0, signal.SIGUSR2: -12 * 3600.0}

_real, _offset = time.time, 0.0


def _jump(number: int, _frame: object) -> None:
    global _offset
    _offset += JUMPS_SECONDS[signal.Signals(number)]


def _shifted() -> float:
    return _real() + _offset


time.time = _shifted
for _number in JUMPS_SECONDS:
    signal.signal(_number, _jump)
