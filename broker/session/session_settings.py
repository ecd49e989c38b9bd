"""What sessions take from the configuration."""

from __future__ import annotations

from typing import NamedTuple

from broker.entities.arguments.personality import DEFAULT, Personality
from broker.session.login.certificate_names import Naming
from broker.session.login.login_throttle import ThrottleLimits


class SessionSettings(NamedTuple):
    """Limits and identity. Sizes are bytes, times seconds; 0 means no limit where a comment does not say otherwise."""

    channel_max: int = 2047
    frame_max: int = 131072
    initial_frame_max: int = 8192  # until the client has answered tune
    heartbeat: int = 60  # what the broker proposes; 0: none
    message_bytes_max: int = 134_217_728
    consumers_per_channel_max: int = 0
    queues_max: int = 0  # of all virtual hosts together, as the next
    exchanges_max: int = 0
    connections_max: int = 0
    output_bytes_max: int = 1 << 20  # beyond it a connection's consumers are given nothing
    held_bytes_max: int = 4 << 20  # beyond it a connection is not read
    incomplete_bytes_max: int = 0  # of messages that are not whole, over all connections
    consumer_timeout: float = 1800.0  # until a delivery has to be acknowledged
    turn_copies_max: int = 1000  # routed copies before others have their turn; see `UNLIKE_COPIES`
    turn_seconds: float = 0.001  # the same in time, for what is not counted in copies
    product: str = "RabbitMQ"
    version: str = "3.13.7"
    personality: Personality = DEFAULT
    cluster_name: str = "leveret"
    detailed_rates: bool = False  # what channels do with each exchange and queue is counted
    stamp_message_ids: bool = False  # only where events are recorded
    loopback_users: frozenset[str] = frozenset({"guest"})
    throttle: ThrottleLimits = ThrottleLimits()
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")  # by which clients may log in
    naming: Naming = Naming()  # where a client's certificate has the name to log in by
