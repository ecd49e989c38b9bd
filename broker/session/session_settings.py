"""The settings that sessions need."""

from __future__ import annotations

from typing import NamedTuple

from broker.entities.arguments.personality import DEFAULT, Personality
from broker.session.login.certificate_names import Naming
from broker.session.login.login_throttle import ThrottleLimits
from broker.session.message_interceptors import MessageInterceptors


class SessionSettings(NamedTuple):
    """Limits and identity. Sizes are bytes, times seconds; 0 means no limit unless a comment says otherwise."""

    channel_max: int = 2047
    frame_max: int = 131072
    initial_frame_max: int = 8192  # until the client has answered tune
    heartbeat: int = 60  # proposed to clients; 0: none
    message_bytes_max: int = 134_217_728
    consumers_per_channel_max: int = 0
    queues_max: int = 0  # of all virtual hosts, like exchanges_max
    exchanges_max: int = 0
    connections_max: int = 0
    output_bytes_max: int = 1 << 20  # beyond it a connection's consumers get no deliveries
    held_bytes_max: int = 4 << 20  # beyond it a connection is not read
    incomplete_bytes_max: int = 0  # of incomplete messages, over all connections
    consumer_timeout: float = 1800.0  # until a delivery has to be acknowledged
    turn_copies_max: int = 1000  # routed copies of one connection in one turn; see `UNLIKE_COPIES`
    turn_seconds: float = 0.001  # time of one connection in one turn, for methods that are not publishes
    product: str = "RabbitMQ"
    version: str = "3.13.7"
    personality: Personality = DEFAULT
    cluster_name: str = "leveret"
    detailed_rates: bool = False  # count publishes and deliveries per channel and exchange or queue
    stamp_message_ids: bool = False  # deliveries carry the message's number; only with the event log
    loopback_users: frozenset[str] = frozenset({"guest"})
    throttle: ThrottleLimits = ThrottleLimits()
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")  # SASL mechanisms offered
    interceptors: MessageInterceptors = MessageInterceptors()  # headers added to each message
    naming: Naming = Naming()  # the field of a client's certificate that names the user
