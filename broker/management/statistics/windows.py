"""Which samples a request asks for: how far back, and how far apart. RabbitMQ's query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.management.responses import bad_request

SAMPLES_MAX = 500
"""As in RabbitMQ."""


class SampleWindow(NamedTuple):
    """Samples of the last `age` seconds, one every `incr` seconds."""

    age: int
    incr: int


class Ages(NamedTuple):
    """The windows that were asked for; None: rates only."""

    lengths: SampleWindow | None = None
    """Of messages in queues."""
    msg_rates: SampleWindow | None = None
    """Of message statistics."""
    data_rates: SampleWindow | None = None
    """Of bytes of connections."""
    node_stats: SampleWindow | None = None


NO_SAMPLES = Ages()


def read_ages(parameters: Mapping[str, str]) -> Ages:
    """What `lengths_age` and `lengths_incr` and so on say. Raises Problem 400 for what makes no sense."""
    return Ages(*(_window(parameters, name) for name in Ages._fields))


def _window(parameters: Mapping[str, str], name: str) -> SampleWindow | None:
    """None where one of the two is missing, or is no number, as in RabbitMQ."""
    try:
        age, incr = int(parameters.get(f"{name}_age", "")), int(parameters.get(f"{name}_incr", ""))
    except ValueError:
        return None
    if not (incr > 0 and age > 0 and age // incr <= SAMPLES_MAX):
        raise bad_request(f"Invalid range parameters: age {age}, incr {incr}")
    return SampleWindow(age, incr)
