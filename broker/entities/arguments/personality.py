"""Personalities: what clients of one series of RabbitMQ meet that clients of others do not.

From RabbitMQ's sources (v3.10.8, v3.13.7, v4.3.5) and its release notes; docs/protocol.md has the table. Objects take
what concerns them when they are made.
"""

from __future__ import annotations

from typing import NamedTuple


class Personality(NamedTuple):
    """A series of RabbitMQ. What is 3.13's way is the default of each field."""

    version: str
    frame_min: int = 4096
    """The smallest frames that a client may ask for, in bytes."""
    global_qos: bool = True
    """`basic.qos` with `global` limits the channel; else it is taken as one without."""
    transient_queues: bool = True
    """Queues may be neither durable nor exclusive."""
    master_locator: bool = True
    """Classic queues may have the argument x-queue-master-locator."""
    queue_version_1: bool = True
    """Classic queues may have x-queue-version 1."""
    delivery_limit: int | None = None
    """Of quorum queues that have no limit of their own."""
    acquired_counts: bool = False
    """What a quorum queue delivers again has x-acquired-count beside x-delivery-count."""
    last_deaths: bool = True
    """Dead letters have headers x-last-death-*."""
    published_deaths: bool = True
    """An x-death that a publisher has written counts as deaths."""
    returned_replies: bool = True
    """A mandatory direct reply comes back, too."""
    classic_timeouts: bool = True
    """Deliveries of classic queues and streams have to be acknowledged in time."""
    named_actions: bool = False
    """Refusals of permissions begin with configure, write or read."""


PERSONALITIES = {
    "3.10": Personality("3.10.8", last_deaths=False),
    "3.13": Personality("3.13.7"),
    "4": Personality(
        "4.3.5",
        frame_min=8192,
        global_qos=False,
        transient_queues=False,
        master_locator=False,
        queue_version_1=False,
        delivery_limit=20,
        acquired_counts=True,
        published_deaths=False,
        returned_replies=False,
        classic_timeouts=False,
        named_actions=True,
    ),
}
DEFAULT = PERSONALITIES["3.13"]
