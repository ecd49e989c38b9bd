"""Table of the keys of rabbitmq.conf that have an effect, and their settings.

A row takes the lines of its keys, reads each value, and combines them into the value of one setting. Rows apply in the
order of the table, a later one wins; a key may stand in several. A key that is in no row has no effect here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from broker.config import DeprecatedFeaturesSettings
from broker.entities.arguments.queue_types import TYPES
from broker.rabbitmq.conf import conf_values as values
from broker.rabbitmq.conf.conf_values import Convert

Named = tuple[str, Any]
"""The last word of a key, and its value."""
Combine = Callable[[Sequence[Named]], Any]


class Row(NamedTuple):
    """Keys, with `*` for any word, and the setting that they are for. `convert` may be one for each last word."""

    keys: tuple[str, ...]
    setting: str
    convert: Convert | Mapping[str, Convert] = values.text
    combine: Combine = lambda found: found[-1][1]

    def converter(self, last_word: str) -> Convert:
        """Return the converter of a key's value."""
        return self.convert if callable(self.convert) else self.convert[last_word]


def _every(found: Sequence[Named]) -> tuple[Any, ...]:
    return tuple(value for _, value in found)


def _all_of_each(found: Sequence[Named]) -> tuple[Any, ...]:
    return tuple(item for _, value in found for item in value)


def _chosen(found: Sequence[Named]) -> tuple[str, ...]:
    return tuple(name for name, yes in found if yes)


def _lowest(found: Sequence[Named]) -> Any:
    return min(value for _, value in found)


def _joined(found: Sequence[Named]) -> str:
    return ":".join(value for _, value in found)


def _address(default_port: int, found: Sequence[Named]) -> tuple[str, ...]:
    given = dict(found)
    return tuple(values.addresses(given.get("ip"), given.get("port", default_port)))


def _log_file(found: Sequence[Named]) -> str:
    """Return the log's file in its directory; empty where there is none, or it is `false`."""
    given = dict(found)
    name = given.get("file", "false")
    return "" if name == "false" else str(PurePosixPath(given.get("dir", ""), name))


def _none(*_: object) -> tuple[()]:
    return ()


def _only(*words: str) -> Convert:
    return partial(values.one_of, {word: word for word in words})


NONE = partial(values.one_of, {"none": ()})
ADDED = partial(values.one_of, {"true": "overwrite", "false": "add"})
UNLIMITED = partial(values.integer_or, "infinity", 0)
QUEUE_TYPE = partial(
    values.one_of, {name: type_.name for type_ in TYPES.values() for name in (type_.name, type_.module)}
)
VERIFY = partial(values.one_of, {"verify_none": "none", "verify_peer": "peer"})
TLS_VERSION = partial(
    values.one_of,
    # The older two are not spoken: together with a younger one they say nothing that would be.
    {"tlsv1.3": "TLSv1.3", "tlsv1.2": "TLSv1.2", "tlsv1.1": "TLSv1.2", "tlsv1": "TLSv1.2"},
)
PERMITTED = partial(values.one_of, {"true": "permit", "false": "deny"})
LOGIN_FROM = partial(
    values.one_of,
    {
        "distinguished_name": "distinguished_name",
        "common_name": "common_name",
        "subject_alternative_name": "subject_alternative_name",
        "subject_alt_name": "subject_alternative_name",
    },
)
LEVEL = partial(
    values.one_of,
    {
        **{level: level for level in ("debug", "info", "warning", "error")},
        "notice": "info",
        **dict.fromkeys(("critical", "alert", "emergency", "none"), "error"),
    },
)
FORM = partial(values.one_of, {"plaintext": "text", "json": "json"})
IP_AND_PORT = {"ip": values.ip, "port": values.port}

ROWS = (
    # Where clients come in
    Row(("listeners.tcp.*",), "server.listen", values.listener, _all_of_each),
    Row(("listeners.tcp",), "server.listen", NONE),
    Row(("listeners.ssl.*",), "tls.listen", values.listener, _all_of_each),
    Row(("listeners.ssl",), "tls.listen", NONE),
    Row(("tcp_listen_options.backlog",), "server.backlog", values.integer),
    Row(("handshake_timeout",), "limits.handshake_timeout_seconds", values.seconds_of_milliseconds),
    # TLS
    Row(("management.ssl.certfile",), "tls.certificate_file", values.path),
    Row(("management.ssl.keyfile",), "tls.key_file", values.path),
    Row(("management.ssl.cacertfile",), "tls.ca_file", values.path),
    Row(("management.ssl.password",), "tls.key_password"),
    Row(("ssl_options.certfile",), "tls.certificate_file", values.path),
    Row(("ssl_options.keyfile",), "tls.key_file", values.path),
    Row(("ssl_options.cacertfile",), "tls.ca_file", values.path),
    Row(("ssl_options.password",), "tls.key_password"),
    Row(("ssl_options.verify",), "tls.verify", VERIFY),
    Row(("ssl_options.fail_if_no_peer_cert",), "tls.require_certificate", values.flag),
    Row(("ssl_options.versions.*",), "tls.minimum_version", TLS_VERSION, _lowest),
    Row(("ssl_options.ciphers.*",), "tls.ciphers", values.text, _joined),
    # Logging in
    Row(("auth_mechanisms.*",), "server.auth_mechanisms", values.text, _every),
    *(
        Row((f"deprecated_features.permit.{feature}",), f"deprecated_features.{feature}", PERMITTED)
        for feature in DeprecatedFeaturesSettings.__struct_fields__
    ),
    Row(("loopback_users.*",), "defaults.loopback_users", values.flag, _chosen),
    Row(("loopback_users",), "defaults.loopback_users", NONE),
    Row(("ssl_cert_login_from",), "tls.login_from", LOGIN_FROM),
    Row(("ssl_cert_login_san_type",), "tls.login_san_type"),
    Row(("ssl_cert_login_san_index",), "tls.login_san_index", values.integer),
    # What a new broker begins with
    Row(("default_user",), "defaults.user"),
    Row(("default_pass",), "defaults.password"),
    Row(("default_vhost",), "defaults.vhost"),
    Row(("default_queue_type",), "defaults.queue_type", QUEUE_TYPE),
    Row(("cluster_name",), "identity.cluster_name"),
    Row(("definitions.https.url",), "definitions.file", values.location),
    Row(("definitions.local.path",), "definitions.file", values.location),
    Row(("management.load_definitions",), "definitions.file", values.location),
    Row(("load_definitions",), "definitions.file", values.location),
    # Headers that each message gets
    Row(("message_interceptors.incoming.set_header_timestamp.overwrite",), "message_interceptors.timestamp", ADDED),
    Row(
        ("message_interceptors.incoming.set_header_routing_node.overwrite",), "message_interceptors.routing_node", ADDED
    ),
    # Limits
    Row(("heartbeat",), "limits.heartbeat_seconds", values.integer),
    Row(("frame_max",), "limits.frame_max_bytes", values.frame_size),
    Row(("initial_frame_max",), "limits.initial_frame_max_bytes", values.byte_size),
    Row(("channel_max", "max_channels_per_connection"), "limits.channel_max", values.integer),
    Row(("connection_max", "max_connections"), "limits.connections_max", UNLIMITED),
    Row(("consumer_max_per_channel",), "limits.consumers_per_channel_max", UNLIMITED),
    Row(("cluster_queue_limit",), "limits.queues_max", UNLIMITED),
    Row(("cluster_exchange_limit",), "limits.exchanges_max", UNLIMITED),
    Row(("max_message_size",), "limits.message_bytes_max", values.integer),
    Row(("consumer_timeout",), "limits.consumer_timeout_seconds", values.seconds_of_milliseconds),
    # Memory and disk; a share counts before a number of bytes
    Row(("vm_memory_high_watermark.absolute",), "memory.high_watermark_bytes", values.size),
    Row(("vm_memory_high_watermark.relative",), "memory.high_watermark_bytes", lambda _: 0),
    Row(("vm_memory_high_watermark.relative",), "memory.high_watermark", values.fraction),
    Row(("memory_monitor_interval",), "memory.check_interval_seconds", values.seconds_of_milliseconds),
    Row(("disk_free_limit.absolute",), "disk.free_limit_bytes", values.size),
    Row(("disk_free_limit.relative",), "disk.free_limit_bytes", values.memory_share),
    # Logs and events
    Row(("log.dir", "log.file"), "logs.file", values.path, _log_file),
    Row(("log.file.level",), "logs.level", LEVEL),
    Row(("log.file.formatter",), "logs.form", FORM),
    Row(("log.console.level",), "logs.level", LEVEL),
    Row(("log.console.formatter",), "logs.form", FORM),
    Row(("event_exchange.vhost",), "event_exchange.vhost"),
    # HTTP: TLS alone where no plain port is named, as in RabbitMQ
    Row(("management.ssl.port",), "management.listen", values.port, _none),
    Row(
        ("management.listener.ip", "management.listener.port"),
        "management.listen",
        IP_AND_PORT,
        partial(_address, 15672),
    ),
    Row(("management.tcp.ip", "management.tcp.port"), "management.listen", IP_AND_PORT, partial(_address, 15672)),
    Row(("management.ssl.ip", "management.ssl.port"), "management.tls_listen", IP_AND_PORT, partial(_address, 15671)),
    Row(("management.path_prefix",), "management.path_prefix"),
    Row(("management.rates_mode",), "management.rates_mode", _only("basic", "detailed", "none")),
    Row(("management.cors.allow_origins.*",), "management.cors_allow_origins", values.text, _every),
    Row(("management.cors.allow_origins",), "management.cors_allow_origins", NONE),
    Row(("management.cors.max_age",), "management.cors_max_age_seconds", values.integer),
    Row(("prometheus.return_per_object_metrics",), "prometheus.return_per_object_metrics", values.flag),
    Row(("prometheus.tcp.ip", "prometheus.tcp.port"), "prometheus.listen", IP_AND_PORT, partial(_address, 15692)),
)
