"""Instants at which a broker is killed. Each function kills it and says in which phase of its life that was."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess

UNDER_LOAD_SECONDS_MAX = 0.5
IN_STOP_SECONDS_MAX = 0.06
IN_START_SECONDS_MAX = 0.6
IN_RECOVERY_SECONDS_MAX = 0.03
COMING_BACK_SECONDS_MAX = 0.15
LOOK_SECONDS = 0.001

Pause = Callable[[float], object]
"""Waits for a number of seconds, or until something has gone wrong."""

Phase = Callable[[BrokerProcess, random.Random, Pause, threading.Event], str]
"""Kills; the event is set as soon as the broker may be expected to go."""


def under_load(broker: BrokerProcess, dice: random.Random, pause: Pause, dying: threading.Event) -> str:
    """At any instant while clients work."""
    pause(dice.uniform(0, UNDER_LOAD_SECONDS_MAX))
    dying.set()
    broker.kill()
    return "under load"


def in_stop(broker: BrokerProcess, dice: random.Random, pause: Pause, dying: threading.Event) -> str:
    """While it says good-bye to its clients and writes what is left; or it was quicker."""
    pause(dice.uniform(0, UNDER_LOAD_SECONDS_MAX))
    dying.set()
    broker.terminate()
    pause(dice.uniform(0, IN_STOP_SECONDS_MAX))
    done = not broker.running
    broker.kill()
    return "stopped before the kill" if done else "in a clean stop"


def while_clients_come_back(broker: BrokerProcess, dice: random.Random, pause: Pause, dying: threading.Event) -> str:
    """Within moments of its being ready, when clients are connecting again."""
    pause(dice.uniform(0, COMING_BACK_SECONDS_MAX))
    dying.set()
    broker.kill()
    return "while clients come back"


def in_start(broker: BrokerProcess, dice: random.Random, pause: Pause, dying: threading.Event) -> str:
    """At any instant of a start that nobody waits for."""
    broker.launch()
    pause(dice.uniform(0, IN_START_SECONDS_MAX))
    broker.kill()
    return "in a start"


def in_recovery(broker: BrokerProcess, dice: random.Random, pause: Pause, dying: threading.Event) -> str:
    """Within moments of its opening the message store, while it reads what is there."""
    broker.launch()
    while broker.running and not _has_open(broker.pid, broker.data_dir / "messages"):
        pause(LOOK_SECONDS)
    pause(dice.uniform(0, IN_RECOVERY_SECONDS_MAX))
    broker.kill()
    return "in recovery"


def _has_open(pid: int, path: Path) -> bool:
    """Does a process have a file or directory, or one below it, mapped?"""
    try:
        return str(path.resolve()) in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
