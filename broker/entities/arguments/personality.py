"""Personalities: the differences between series of RabbitMQ that clients can see.

From RabbitMQ's sources (v3.10.8, v3.13.7, v4.3.5) and its release notes; docs/protocol.md has the table. Objects read
the fields that they need when they are made.
"""

from __future__ import annotations

from typing import NamedTuple


class Personality(NamedTuple):
    """A series of RabbitMQ. The default of each field is 3.13's."""

    version: str
    frame_min: int = 4096
    """The smallest frame-max that a client may ask for, in bytes."""
    global_qos: bool = True
    """`basic.qos` with `global` limits the channel; otherwise the flag is ignored."""
    transient_queues: bool = True
    """Queues may be neither durable nor exclusive."""
    master_locator: bool = True
    """Classic queues may have the argument x-queue-master-locator."""
    queue_version_1: bool = True
    """Classic queues may have x-queue-version 1."""
    delivery_limit: int | None = None
    """The default delivery limit of quorum queues; None for none."""
    acquired_counts: bool = False
    """Redelivered messages of a quorum queue have x-acquired-count beside x-delivery-count."""
    last_deaths: bool = True
    """Dead letters have the headers x-last-death-*."""
    published_deaths: bool = True
    """An x-death header of a publisher is kept and counted."""
    returned_replies: bool = True
    """A mandatory direct reply that cannot be delivered is returned."""
    classic_timeouts: bool = True
    """The consumer timeout applies to classic queues and streams."""
    named_actions: bool = False
    """Reply texts of refused permissions begin with configure, write or read."""


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
