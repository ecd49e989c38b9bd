"""The samples that a request asks for, by RabbitMQ's query parameters: their age and their interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.management.responses import bad_request

SAMPLES_MAX = 500
"""Limit of the samples in one window, as in RabbitMQ."""


class SampleWindow(NamedTuple):
    """Samples of the last `age` seconds, one every `incr` seconds."""

    age: int
    incr: int

    def times(self, newest: int) -> list[int]:
        """The times of the samples, newest first, in seconds since the epoch: multiples of `incr` up to `newest`."""
        last = newest // self.incr * self.incr
        return [last - number * self.incr for number in range(self.age // self.incr + 1)]


class Ages(NamedTuple):
    """The windows that a request asks for; None stands for rates only."""

    lengths: SampleWindow | None = None
    """Samples of messages in queues."""
    msg_rates: SampleWindow | None = None
    """Samples of message_stats."""
    data_rates: SampleWindow | None = None
    """Samples of the bytes of connections."""
    node_stats: SampleWindow | None = None


NO_SAMPLES = Ages()


def read_ages(parameters: Mapping[str, str]) -> Ages:
    """Parse `lengths_age`, `lengths_incr` and so on. Raises Problem 400 for values out of range."""
    return Ages(*(_window(parameters, name) for name in Ages._fields))


def _window(parameters: Mapping[str, str], name: str) -> SampleWindow | None:
    """The window of one name; None if one of its two parameters is missing or not a number, as in RabbitMQ."""
    try:
        age, incr = int(parameters.get(f"{name}_age", "")), int(parameters.get(f"{name}_incr", ""))
    except ValueError:
        return None
    if not (incr > 0 and age > 0 and age // incr <= SAMPLES_MAX):
        raise bad_request(f"Invalid range parameters: age {age}, incr {incr}")
    return SampleWindow(age, incr)
