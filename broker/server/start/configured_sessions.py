"""The settings of sessions, of those of a broker."""

from __future__ import annotations

from broker.config import Config
from broker.server import resource_alarms
from broker.session.login.certificate_names import Naming
from broker.session.login.login_throttle import ThrottleLimits
from broker.session.message_interceptors import MessageInterceptors
from broker.session.session_settings import SessionSettings


def session_settings(config: Config) -> SessionSettings:
    """Return the settings that sessions need."""
    limits, identity = config.limits, config.identity
    return SessionSettings(
        channel_max=limits.channel_max,
        frame_max=limits.frame_max_bytes,
        heartbeat=limits.heartbeat_seconds,
        message_bytes_max=limits.message_bytes_max,
        consumers_per_channel_max=limits.consumers_per_channel_max,
        consumer_timeout=limits.consumer_timeout_seconds,
        connections_max=limits.connections_max,
        initial_frame_max=limits.initial_frame_max_bytes,
        queues_max=limits.queues_max,
        exchanges_max=limits.exchanges_max,
        incomplete_bytes_max=limits.incomplete_bytes_max or resource_alarms.memory_limit(config) // 4,
        turn_seconds=limits.turn_milliseconds / 1000,
        output_bytes_max=limits.output_bytes_max,
        held_bytes_max=limits.held_bytes_max,
        product=identity.product,
        version=identity.version,
        personality=config.personality,
        cluster_name=identity.shown_cluster_name,
        detailed_rates=config.management.rates_mode == "detailed",
        stamp_message_ids=config.events.enabled and config.events.stamp_message_ids,
        loopback_users=frozenset(config.defaults.loopback_users),
        throttle=ThrottleLimits(
            limits.wrong_passwords_max,
            limits.wrong_passwords_window_seconds,
            limits.wrong_passwords_wait_seconds_max,
        ),
        mechanisms=config.server.auth_mechanisms,
        interceptors=MessageInterceptors(
            config.message_interceptors.timestamp, config.message_interceptors.routing_node, identity.shown_node_name
        ),
        naming=Naming(config.tls.login_from, config.tls.login_san_type, config.tls.login_san_index),
    )
