"""The options of the data source: parsed once, checked, and named in every complaint.

Spark hands options over as text and in any case. An unknown option is refused, because a misspelt limit would
otherwise be no limit at all.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from leveret_spark.amqp.client_login import Login
from leveret_spark.option_errors import OptionError

PREFETCH_MAX = 65535
"""The widest window that `basic.qos` can say."""

BROKER = ("uri", "host", "port", "vhost", "user", "password", "passwordFile")
TLS = ("tls", "tlsCaFile", "tlsCertFile", "tlsKeyFile")
PATIENCE = ("heartbeatSeconds", "connectTimeoutSeconds", "reconnectSeconds")
READING = (
    "queue",
    "queues",
    "subscribePattern",
    "assign",
    "connections",
    "partitions",
    "prefetch",
    "maxMessagesPerBatch",
    "maxBytesPerBatch",
    "batchWaitMilliseconds",
    "idleSeconds",
    "ack",
    "headersAs",
    "includeHeaders",
    "includeBrokerTimestamp",
)
STREAMS = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "groupId",
    "streamFilter",
    "streamFilterUnfiltered",
)
SUPER_STREAMS = ("superStream", "managementUrl")
WEB = (
    "url",
    "user",
    "password",
    "passwordFile",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "connectTimeoutSeconds",
    "readTimeoutSeconds",
    "reconnectSeconds",
)
"""Options of reading segments by HTTP, of the source `leveret-events`."""
WRITING = (
    "exchange",
    "routingKey",
    "hashColumn",
    "hashColumns",
    "persistent",
    "mandatory",
    "onRefused",
    "refusedPath",
    "window",
    "confirmTimeoutSeconds",
)
KNOWN = {name.lower(): name for name in (*BROKER, *TLS, *PATIENCE, *READING, *STREAMS, *SUPER_STREAMS, *WRITING)}
ALIASES = {
    "maxOffsetsPerTrigger": "maxMessagesPerBatch",
    "maxBytesPerTrigger": "maxBytesPerBatch",
    "minPartitions": "partitions",
    "subscribe": "queues",
}
"""Names of Spark's source for Kafka, and ours."""
OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}
"""Options that Spark adds to those of a sink."""


class Given:
    """The options as they were given, read by type. Every reading says its name when the value does not fit."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._aliases: dict[str, str] = {}
        for alias, name in ALIASES.items():
            if alias.lower() in self._values:
                if name.lower() in self._values:
                    raise OptionError(f"options {name} and {alias} exclude each other: they are the same")
                self._values[name.lower()] = self._values.pop(alias.lower())
                self._aliases[name] = alias

    def refuse_unknown(self, known: Iterable[str] = KNOWN.values()) -> None:
        """Raise OptionError for a name that means nothing here."""
        names = {name.lower(): name for name in known}
        unknown = [name for name in self._values if name not in names and name not in OF_SPARK]
        if unknown:
            raise OptionError(f"unknown option {unknown[0]!r}; known are {', '.join(names.values())}")

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def said(self, name: str) -> str:
        """The name under which an option was given."""
        return self._aliases.get(name, name)

    def was_said(self, alias: str) -> bool:
        """True if an option was given under another name."""
        return alias in self._aliases.values()

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name.lower(), default)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        value = self._values.get(name.lower())
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"option {self.said(name)} is a whole number, not {value!r}") from None
        if not least <= number <= most:
            raise OptionError(f"option {self.said(name)} is a number from {least} to {most}, not {number}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, "true" if default else "false", ("true", "false")) == "true"

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self._values.get(name.lower(), default).lower()
        if value not in choices:
            raise OptionError(f"option {name} is one of {', '.join(choices)}, not {value!r}")
        return value


@dataclass(frozen=True)
class Tls:
    """Whom to believe, and what to show: files in PEM form on the node that connects. None: as the system does."""

    ca_file: str | None
    cert_file: str | None
    key_file: str | None

    def context(self) -> ssl.SSLContext:
        """Build the TLS context of these files. Raises OSError."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(frozen=True)
class Broker:
    """Addresses of a broker, of which the first that answers is used, login, and time-outs."""

    endpoints: tuple[tuple[str, int], ...]
    vhost: str
    login: Login
    tls: Tls | None
    heartbeat_seconds: int
    connect_timeout_seconds: int
    reconnect_seconds: int

    @property
    def host(self) -> str:
        """The host of the first address."""
        return self.endpoints[0][0]

    @property
    def port(self) -> int:
        """The port of the first address."""
        return self.endpoints[0][1]

    def __str__(self) -> str:
        scheme = "amqps" if self.tls else "amqp"
        places = ",".join(f"{host}:{port}" for host, port in self.endpoints)
        return f"{scheme}://{self.login.user}@{places}, virtual host {self.vhost!r}"


@dataclass(frozen=True)
class Web:
    """Address of a broker's HTTP API, login, and time-outs.

    `prefix`: path that a proxy puts in front of every path. Without `tls` it is HTTP, else HTTPS.
    """

    host: str
    port: int
    prefix: str
    login: Login
    tls: Tls | None
    connect_timeout_seconds: int
    read_timeout_seconds: int
    reconnect_seconds: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"


@dataclass(frozen=True)
class Reading:
    """Queue to read, and limits of a batch."""

    queue: str
    connections: int
    partitions: int
    prefetch: int
    max_messages: int
    max_bytes: int
    wait_seconds: float
    idle_seconds: int
    acknowledged: bool

    def alone(self) -> Reading:
        """Return the same reading over one connection."""
        return replace(self, connections=1)


@dataclass(frozen=True)
class Writing:
    """Target of rows, and handling of those that the broker does not take."""

    super_stream: str | None
    hash_columns: tuple[str, ...]
    exchange: str | None
    routing_key: str | None
    persistent: bool
    mandatory: bool
    fails: bool
    refused_path: str | None
    window: int
    confirm_timeout_seconds: int
    partition_keys: tuple[str, ...] = ()
    """Routing keys of the partitions of the super stream, in their order."""


def broker_of(options: Mapping[str, str]) -> Broker:
    """Read what both directions share. Raises OptionError, for unknown names too."""
    given = Given(options)
    given.refuse_unknown()
    at = _place_of_uri(given) if given.has("uri") else _place_of_parts(given)
    endpoints, vhost, user, password, secure = at
    return Broker(
        endpoints=endpoints,
        vhost=vhost,
        login=_login_of(given, user, password),
        tls=_tls_of(given, secure),
        heartbeat_seconds=given.number("heartbeatSeconds", 60, 0, PREFETCH_MAX),
        connect_timeout_seconds=given.number("connectTimeoutSeconds", 10, 1, 3600),
        reconnect_seconds=given.number("reconnectSeconds", 60, 0, 86400),
    )


Place = tuple[tuple[tuple[str, int], ...], str, str, str, bool]
"""Hosts and ports, virtual host, user, password, and whether by TLS."""


def _place_of_parts(given: Given) -> Place:
    secure = given.flag("tls", False)
    port = given.number("port", 5671 if secure else 5672, 1, 65535)
    hosts, vhost, user = given.text("host") or "127.0.0.1", given.text("vhost", "/"), given.text("user", "guest")
    assert vhost is not None
    assert user is not None
    return tuple(_endpoint(text.strip(), port) for text in hosts.split(",")), vhost, user, "guest", secure


def _endpoint(text: str, port: int) -> tuple[str, int]:
    """Read a host, `host:port`, an address of IPv6, or `[address]:port`."""
    if text.count(":") > 1 and not text.startswith("["):
        return text, port
    try:
        parts = urlsplit(f"//{text}")
        host, own = parts.hostname, parts.port
    except ValueError:
        host, own = None, None
    if not host:
        raise OptionError(f"option host has hosts such as broker-1,broker-2:5673, not {text!r}")
    return host, own or port


def _place_of_uri(given: Given) -> Place:
    """Read amqp://user:password@host:port/vhost. A complaint never quotes it, for it may hold a password."""
    twice = [name for name in ("host", "port", "vhost", "user", "tls") if given.has(name)]
    if twice:
        raise OptionError(f"options uri and {twice[0]} exclude each other")
    try:
        uri = urlsplit(given.text("uri") or "")
        port = uri.port
    except ValueError:
        raise OptionError("option uri cannot be read: amqp://user@host:port/vhost is its form") from None
    if uri.scheme not in ("amqp", "amqps") or not uri.hostname or uri.query:
        raise OptionError("option uri is of the form amqp://user@host:port/vhost, or amqps://")
    secure = uri.scheme == "amqps"
    vhost = unquote(uri.path[1:]) or "/"
    user, password = unquote(uri.username or "guest"), unquote(uri.password or "guest")
    return ((uri.hostname, port or (5671 if secure else 5672)),), vhost, user, password, secure


def web_of(given: Given, url: str) -> Web:
    """Read what reading by HTTP takes. A complaint never quotes the URL. Raises OptionError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise OptionError("option url cannot be read: http://host:port is its form") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise OptionError("option url is of the form http://host:port, or https://")
    if parts.username is not None or parts.password is not None:
        raise OptionError(
            "option url must not contain user and password, which query plans show: use options user and password"
        )
    secure = parts.scheme == "https"
    return Web(
        host=parts.hostname,
        port=port or (443 if secure else 80),
        prefix=parts.path.rstrip("/"),
        login=_login_of(given, given.text("user") or "guest", "guest"),
        tls=_tls_of(given, secure),
        connect_timeout_seconds=given.number("connectTimeoutSeconds", 10, 1, 3600),
        read_timeout_seconds=given.number("readTimeoutSeconds", 60, 1, 3600),
        reconnect_seconds=given.number("reconnectSeconds", 60, 0, 86400),
    )


def _login_of(given: Given, user: str, password: str) -> Login:
    """The user, with `password` where no other is given."""
    if given.has("password") and given.has("passwordFile"):
        raise OptionError("options password and passwordFile exclude each other")
    return Login(user, given.text("passwordFile"), given.text("password") or password)


def _tls_of(given: Given, secure: bool) -> Tls | None:
    if not secure:
        if idle := [name for name in TLS[1:] if given.has(name)]:
            raise OptionError(f"option {idle[0]} requires TLS, which is not enabled here")
        return None
    if given.has("tlsCertFile") != given.has("tlsKeyFile"):
        raise OptionError("options tlsCertFile and tlsKeyFile go together")
    return Tls(given.text("tlsCaFile"), given.text("tlsCertFile"), given.text("tlsKeyFile"))


def queues_of(given: Given) -> tuple[str, ...]:
    """Return the queues to read: `queue`, or `queues` separated by commas. Raises OptionError."""
    if given.has("queue") and given.has("queues"):
        raise OptionError("options queue and queues exclude each other")
    names = (given.text("queues") or "").split(",") if given.has("queues") else [given.text("queue") or ""]
    queues = tuple(dict.fromkeys(filter(None, (name.strip() if given.has("queues") else name for name in names))))
    if not queues:
        raise OptionError("option queue is missing: the name of the queue to read")
    return queues


def reading_of(options: Mapping[str, str]) -> Reading:
    """Read the options of a queue as a source. Raises OptionError."""
    given = Given(options)
    queue, *others = queues_of(given)
    if others:
        raise OptionError("option queues names several: they must be streams")
    acknowledged = given.choice("ack", "never", ("never", "after")) == "after"
    if acknowledged and (idle := next((name for name in ("partitions", "maxBytesPerBatch") if given.has(name)), None)):
        raise OptionError(f"option {given.said(idle)} is not for ack = after: each connection is a task with its share")
    connections = given.number("connections", 1, 1, 64)
    messages = given.number("maxMessagesPerBatch", 10_000, 1, connections * PREFETCH_MAX)
    share = -(-messages // connections)
    prefetch = given.number("prefetch", min(2 * share, PREFETCH_MAX), 1, PREFETCH_MAX)
    return Reading(
        queue=queue,
        connections=connections,
        partitions=given.number("partitions", connections, 1, 10_000),
        prefetch=prefetch,
        max_messages=messages,
        max_bytes=given.number("maxBytesPerBatch", 64 << 20, 1, 1 << 30),
        wait_seconds=given.number("batchWaitMilliseconds", 200, 0, 3_600_000) / 1000,
        idle_seconds=given.number("idleSeconds", 5, 1, 86400),
        acknowledged=acknowledged,
    )


def headers_as(options: Mapping[str, str]) -> str:
    """The form of the column of headers: json, map or array. `includeHeaders` is Kafka's word for the last."""
    given = Given(options)
    if given.has("headersAs") and given.has("includeHeaders"):
        raise OptionError("options headersAs and includeHeaders exclude each other")
    if given.flag("includeHeaders", False):
        return "array"
    return given.choice("headersAs", "json", ("json", "map", "array"))


def writing_of(options: Mapping[str, str]) -> Writing:
    """Read the options of a sink. Raises OptionError."""
    given = Given(options)
    refused_path = given.text("refusedPath")
    if refused_path is not None and given.has("onRefused"):
        raise OptionError("options refusedPath and onRefused exclude each other: the rows of the path are counted")
    super_stream = given.text("superStream")
    if super_stream is not None and (idle := next((name for name in WRITING[:2] if given.has(name)), None)):
        raise OptionError(f"options superStream and {idle} exclude each other")
    return Writing(
        super_stream=super_stream,
        hash_columns=_hash_columns(given),
        exchange=given.text("exchange"),
        routing_key=given.text("routingKey"),
        persistent=given.flag("persistent", True),
        mandatory=given.flag("mandatory", True),
        fails=refused_path is None and given.choice("onRefused", "fail", ("fail", "count")) == "fail",
        refused_path=refused_path,
        window=given.number("window", 2000, 1, 1_000_000),
        confirm_timeout_seconds=given.number("confirmTimeoutSeconds", 60, 1, 86400),
    )


def _hash_columns(given: Given) -> tuple[str, ...]:
    """Return the columns that choose the partition of a super stream; none if they were not named."""
    said = [name for name in ("hashColumn", "hashColumns") if given.has(name)]
    if not said:
        return ()
    if len(said) > 1:
        raise OptionError("options hashColumn and hashColumns exclude each other")
    if not given.has("superStream"):
        raise OptionError(f"option {said[0]} goes with superStream, whose partitions it chooses")
    text = given.text(said[0]) or ""
    names = tuple(name.strip() for name in text.split(",")) if said[0] == "hashColumns" else (text,)
    if not all(names) or len(set(names)) < len(names):
        raise OptionError(f"option {said[0]} has names of columns, each once, not {text!r}")
    return names
