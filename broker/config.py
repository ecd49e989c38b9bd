"""Settings with their defaults and limits.

A setting comes from, last wins: the default here, the TOML file, files of RabbitMQ's format (broker/rabbitmq/conf), the
environment (environment_settings.py), the command line; settings_loader.py reads them all. Names carry their unit. A
setting that does not exist or does not fit is refused with the file, the key and what was expected; nothing is guessed.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from broker.entities.arguments.personality import LATEST, PERSONALITIES, Personality

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

_PORT = re.compile("[0-9]{1,5}")

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1)]
LoggedProperty = Annotated[str, Meta(pattern="^(message_id|correlation_id|type|app_id|headers[.].+)$")]
HostName = Annotated[
    str,
    Meta(
        pattern=r"^(\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$",
        description='a host\'s name without scheme and port, "*.example.com" or "*"',
    ),
]
PathPrefix = Annotated[str, Meta(pattern="^(/[^/?#]+)*$")]
Mechanisms = Annotated[tuple[Literal["PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"], ...], Meta(min_length=1)]

Permission = Literal["default", "permit", "deny"]
Intercepting = Literal["off", "add", "overwrite"]


class ConfigError(Exception):
    """An invalid setting, or a file that cannot be read; the message says which, and what was expected."""


class Address(NamedTuple):
    """An address to listen on. Port 0 lets the system choose one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[server]`."""

    listen: tuple[str, ...] = ("localhost:5672",)
    data_dir: Text = "./leveret-data"
    backlog: Positive = 1024
    auth_mechanisms: Mechanisms = ("PLAIN", "AMQPLAIN")

    @property
    def addresses(self) -> list[Address]:
        """The parsed `listen`; `load` has already refused what cannot be parsed."""
        return [parse_address(text) for text in self.listen]

    @property
    def directory(self) -> Path:
        """The data directory, relative to the working directory."""
        return Path(self.data_dir)


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[tls]`."""

    listen: tuple[str, ...] = ()
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = ""
    key_password_file: str = ""
    ca_file: str = ""
    verify: Literal["none", "peer"] = "none"
    require_certificate: bool = False
    minimum_version: Literal["TLSv1.2", "TLSv1.3"] = "TLSv1.2"
    ciphers: str = ""
    login_from: Literal["distinguished_name", "common_name", "subject_alternative_name"] = "distinguished_name"
    login_san_type: Literal["dns", "email", "uri", "ip", "other_name"] = "dns"
    login_san_index: Count = 0

    @property
    def addresses(self) -> list[Address]:
        """The parsed `listen`."""
        return [parse_address(text) for text in self.listen]


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[http]`: limits on HTTP clients, of the management API and of Prometheus."""

    connections_max: Positive = 64
    reads_max: Positive = 2
    header_bytes_max: Annotated[int, Meta(ge=1024, le=64 * KIBIBYTE)] = 8 * KIBIBYTE
    body_bytes_max: Positive = 16 * MEBIBYTE
    request_timeout_seconds: Seconds = 10.0
    idle_timeout_seconds: Seconds = 60.0
    send_timeout_seconds: Seconds = 30.0


class ManagementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[management]`: the HTTP API and the web page."""

    listen: tuple[str, ...] = ("localhost:15672",)
    tls_listen: tuple[str, ...] = ()
    path_prefix: PathPrefix = ""
    rates_mode: Literal["none", "basic", "detailed"] = "basic"
    cors_allow_origins: tuple[str, ...] = ()
    cors_max_age_seconds: Count = 1800
    host_names: tuple[HostName, ...] = ()

    @property
    def addresses(self) -> list[Address]:
        """The parsed `listen`."""
        return [parse_address(text) for text in self.listen]

    @property
    def tls_addresses(self) -> list[Address]:
        """The parsed `tls_listen`."""
        return [parse_address(text) for text in self.tls_listen]


class PrometheusSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[prometheus]`: metrics for scrapers, without credentials."""

    listen: tuple[str, ...] = ("localhost:15692",)
    return_per_object_metrics: bool = False

    @property
    def addresses(self) -> list[Address]:
        """The parsed `listen`."""
        return [parse_address(text) for text in self.listen]


class IdentitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[identity]`: the version of RabbitMQ to be compatible with, and names shown to clients."""

    personality: Literal["3.10", "3.13", "4.2", "4.3", "4"] = "3.13"
    product: Text = "RabbitMQ"
    version: Text = "3.13.7"
    cluster_name: str = ""
    node_name: str = ""

    @property
    def shown_node_name(self) -> str:
        """`node_name`, or `rabbit@` and the host's short name, as tools assume."""
        return self.node_name or f"rabbit@{socket.gethostname().partition('.')[0]}"

    @property
    def shown_cluster_name(self) -> str:
        """`cluster_name`, or `leveret@` and the host's name."""
        return self.cluster_name or f"leveret@{socket.gethostname()}"


class DeprecatedFeaturesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[deprecated_features]`: RabbitMQ's deprecated_features.permit.*; `default` is the personality's."""

    global_qos: Permission = "default"
    transient_nonexcl_queues: Permission = "default"
    queue_master_locator: Permission = "default"


class LimitsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[limits]`."""

    channel_max: Annotated[int, Meta(ge=0, le=65535)] = 2047
    frame_max_bytes: Annotated[int, Meta(ge=4096, le=2**31 - 1)] = 128 * KIBIBYTE
    heartbeat_seconds: Annotated[int, Meta(ge=0, le=65535)] = 60
    initial_frame_max_bytes: Annotated[int, Meta(ge=4096, le=2**31 - 1)] = 8 * KIBIBYTE
    handshake_timeout_seconds: Seconds = 10.0
    wrong_passwords_max: Count = 10
    wrong_passwords_window_seconds: Seconds = 3600.0
    wrong_passwords_wait_seconds_max: Seconds = 60.0
    handshakes_max: Positive = 10_000
    message_bytes_max: Annotated[int, Meta(ge=0, le=512 * MEBIBYTE)] = 128 * MEBIBYTE
    incomplete_bytes_max: Count = 0
    connections_max: Count = 0
    queues_max: Count = 250_000
    exchanges_max: Count = 250_000
    consumers_per_channel_max: Count = 0
    consumer_timeout_seconds: Annotated[float, Meta(ge=0)] = 1800.0
    queue_window_messages: Positive = 4096
    queue_window_bytes: Positive = 8 * MEBIBYTE
    output_bytes_max: Positive = MEBIBYTE
    held_bytes_max: Positive = MEBIBYTE
    turn_milliseconds: Annotated[float, Meta(gt=0)] = 1.0


class MemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[memory]`."""

    high_watermark: Annotated[float, Meta(gt=0, le=1)] = 0.6
    high_watermark_bytes: Count = 0
    mapped_bytes_max: Count = 64 * MEBIBYTE
    check_interval_seconds: Seconds = 1.0


class DiskSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[disk]`."""

    free_limit_bytes: Count = 50_000_000
    check_interval_seconds: Seconds = 5.0
    hang_seconds: Seconds = 10.0


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[store]`."""

    batch_bytes_max: Positive = 8 * MEBIBYTE
    backlog_batches_max: Positive = 4
    lazy_bytes_max: Positive = 4 * MEBIBYTE
    lazy_flush_milliseconds: Positive = 10
    journal_bytes: Count = 4 * MEBIBYTE
    accept_loss: bool = False


class ShipSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[ship]`: the store at a second place, docs/operations/shipping.md."""

    to: str = ""
    confirm: Literal["local", "shipped"] = "local"
    confirm_seconds: Annotated[float, Meta(ge=0)] = 0.0
    piece_seconds: Seconds = 1.0
    piece_bytes: Positive = 4 * MEBIBYTE
    base_seconds: Seconds = 86_400.0
    base_records_bytes: Positive = 256 * MEBIBYTE
    kept_seconds: Seconds = 604_800.0
    kept_bases: Positive = 2
    bytes_per_second_max: Count = 0
    buffer_bytes: Positive = 64 * MEBIBYTE
    sftp_key: str = ""
    sftp_known_hosts: str = ""
    s3_endpoint: str = ""
    s3_region: str = ""


class BackupSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[backup]`: backups that the page makes and lists."""

    directory: str = ""
    keep: Positive = 7


class EventsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[events]`: the event log."""

    enabled: bool = False
    directory: str = ""
    segment_bytes: Positive = 16 * MEBIBYTE
    segment_seconds: Seconds = 60.0
    kept_bytes: Count = 1024 * MEBIBYTE
    stamp_message_ids: bool = False
    message_properties: Annotated[tuple[LoggedProperty, ...], Meta(max_length=8)] = ()
    message_property_bytes: Annotated[int, Meta(ge=1, le=255)] = 64


class EventExchangeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[event_exchange]`: events of the broker as messages."""

    enabled: bool = False
    vhost: str = ""


class LogsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[logs]`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["text", "json"] = "text"
    file: str = ""


class DefaultsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[defaults]`: user and virtual host of a new data directory."""

    user: Text = "guest"
    password: Text = "guest"
    vhost: Text = "/"
    queue_type: Literal["", "classic", "quorum", "stream"] = ""
    loopback_users: tuple[str, ...] = ("guest",)


class DefinitionsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[definitions]`."""

    file: str = ""


class MessageInterceptorsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[message_interceptors]`: headers that are added to each message that is published."""

    timestamp: Intercepting = "off"
    routing_node: Intercepting = "off"


class ShutdownSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[shutdown]`."""

    timeout_seconds: Seconds = 5.0


class TestingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[testing]`: test requests, docs/testing-with-leveret.md."""

    enabled: bool = False


class RehearsalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[rehearsal]`: counts what a later series of RabbitMQ would do differently, docs/rehearsal.md."""

    watch: Literal["", "4.2", "4.3", "4"] = ""


ShovelSettings = dict[str, Any]
"""A static shovel, with the keys of a dynamic one's value."""


class DebugSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[debug]`: switches for finding bugs of the broker."""

    check_invariants: bool = False


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings; `config.example.toml` explains each."""

    server: ServerSettings = ServerSettings()
    tls: TlsSettings = TlsSettings()
    http: HttpSettings = HttpSettings()
    management: ManagementSettings = ManagementSettings()
    prometheus: PrometheusSettings = PrometheusSettings()
    identity: IdentitySettings = IdentitySettings()
    deprecated_features: DeprecatedFeaturesSettings = DeprecatedFeaturesSettings()
    limits: LimitsSettings = LimitsSettings()
    memory: MemorySettings = MemorySettings()
    disk: DiskSettings = DiskSettings()
    store: StoreSettings = StoreSettings()
    ship: ShipSettings = ShipSettings()
    backup: BackupSettings = BackupSettings()
    events: EventsSettings = EventsSettings()
    event_exchange: EventExchangeSettings = EventExchangeSettings()
    logs: LogsSettings = LogsSettings()
    defaults: DefaultsSettings = DefaultsSettings()
    definitions: DefinitionsSettings = DefinitionsSettings()
    message_interceptors: MessageInterceptorsSettings = MessageInterceptorsSettings()
    shutdown: ShutdownSettings = ShutdownSettings()
    testing: TestingSettings = TestingSettings()
    rehearsal: RehearsalSettings = RehearsalSettings()
    debug: DebugSettings = DebugSettings()
    shovels: dict[str, ShovelSettings] = {}

    @property
    def events_directory(self) -> Path:
        """The directory of the event log: in the data directory, unless the settings name another one."""
        return Path(self.events.directory) if self.events.directory else self.server.directory / "events"

    @property
    def personality(self) -> Personality:
        """The differences of the version of RabbitMQ, with the deprecated features that the settings permit or not."""
        own = self._permitting(self.identity.personality)
        # The rehearsal tells failures from other returns, as 4.2 does, which counts them alike.
        return own._replace(failures_apart=True) if self.rehearsal.watch else own

    @property
    def rehearsed(self) -> tuple[Personality, ...]:
        """The series above the broker's own one up to the rehearsed one, oldest first."""
        own, last = (
            self.personality.series,
            PERSONALITIES[LATEST.get(self.rehearsal.watch, self.rehearsal.watch)].series,
        )
        later = (name for name, each in PERSONALITIES.items() if own < each.series <= last)
        return tuple(map(self._permitting, later))

    def _permitting(self, series: str) -> Personality:
        """Return a series with the deprecated features that the settings permit or not."""
        features = self.deprecated_features
        chosen = {
            "global_qos": features.global_qos,
            "transient_queues": features.transient_nonexcl_queues,
            "master_locator": features.queue_master_locator,
        }
        given: dict[str, Any] = {name: word == "permit" for name, word in chosen.items() if word != "default"}
        return PERSONALITIES[LATEST.get(series, series)]._replace(**given)


DEFAULTS_OF: dict[str, dict[str, dict[str, Any]]] = {
    "3.10": {"identity": {"version": PERSONALITIES["3.10"].version}, "limits": {"initial_frame_max_bytes": 4096}},
    **{
        series: {
            "identity": {"version": PERSONALITIES[LATEST.get(series, series)].version},
            "server": {"auth_mechanisms": ["PLAIN", "AMQPLAIN", "ANONYMOUS"]},
            "limits": {"message_bytes_max": 16 * MEBIBYTE},
            "defaults": {"queue_type": "classic"},
        }
        for series in ("4.2", "4.3", "4")
    },
}
"""Defaults that differ with a personality: those of that RabbitMQ series."""

OFF = "off"


class SettingOrigin(NamedTuple):
    """The place from which a setting was translated, and its value there, for messages."""

    place: str
    shown: str


class Translated(NamedTuple):
    """Settings of another source: a tree of sections and fields, and the origin of each."""

    tree: dict[str, dict[str, Any]]
    origins: dict[tuple[str, str], SettingOrigin]


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`, an IPv6 host in brackets. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not (colon and host and _PORT.fullmatch(port) and int(port) <= 65535):
        raise ConfigError(f'expected HOST:PORT or [IPV6]:PORT with a port between 0 and 65535, got "{text}"')
    return Address(host, int(port))
