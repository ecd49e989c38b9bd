"""Settings in the format of rabbitmq.conf, and what they are here.

Format and units: RabbitMQ 3.10.8, asked by `rabbitmqctl eval`; quotes: the documentation of 3.13.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config import ConfigError
from broker.rabbitmq.conf.conf_keys import ROWS
from broker.rabbitmq.conf.conf_lines import read_lines
from broker.rabbitmq.conf.conf_translation import read_conf
from broker.rabbitmq.conf.conf_values import addresses, byte_size, size
from broker.settings_loader import load

MEMORY = "vm_memory_high_watermark"


def write(directory: Path, text: str, name: str = "rabbitmq.conf") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (" \ta.b-1 =  x y  # z\r\n\n  # a = 1\n\t\nc=d#e", {("a", "b-1"): "x y", ("c",): "d"}),
        ("a = b = c\nd = '  #x ' # y\ne = ''", {("a",): "b = c", ("d",): "  #x ", ("e",): ""}),
        ("a = '''\n  x\n  # y\n'''\nb = '''z'''\nc = d", {("a",): "x\n# y", ("b",): "z", ("c",): "d"}),
        ('a\\.b.c = "x"\nb = $(NAME)-$(NAME)ü', {("a.b", "c"): '"x"', ("b",): "vv-vvü"}),
    ],
)
def test_a_line_is_a_key_and_a_value(tmp_path: Path, text: str, settings: dict[tuple[str, ...], str]) -> None:
    lines, problems = read_lines([write(tmp_path, text)], {"NAME": "vv"})
    assert {line.words: line.value for line in lines} == settings
    assert problems == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "expected KEY = VALUE, with a key such as ") for text in ("a", "% a", "a b = c", "include *.conf")),
        ("a =", "a: expected a value; an empty one is written ''"),
        ("a = 'b'c", "a: expected nothing but a comment behind the second single quote"),
        ("a = '''\nb = c", "a: expected ''' at the end of the value of several lines"),
        ("a = $(NONE)", "the environment has no variable NONE"),
        ("heartbeat = 70000", "heartbeat: expected int between 0 and 65535, got 70000"),
        ("consumer_timeout = 0", "consumer_timeout: expected milliseconds, a whole number from 1 up, got 0"),
        ("frame_max = 1KB", "frame_max: expected int between 4096 and 2147483647, got 1KB"),
        ("listeners.tcp.1 = localhost:1", "listeners.tcp.1: expected a port such as 5672, or an IP address with a"),
        ("disk_free_limit.absolute = 1 GB", "disk_free_limit.absolute: expected bytes such as 50000000, 2GB or"),
        (f"{MEMORY}.relative = 40%", f"{MEMORY}.relative: expected a number such as 0.4, got 40%"),
        (
            "auth_mechanisms.1 = K",
            'auth_mechanisms.1: expected "AMQPLAIN" or "ANONYMOUS" or "EXTERNAL" or "PLAIN", got K',
        ),
        ("default_pass = encrypted:x", "default_pass: expected a value in the clear (encrypted ones cannot be read),"),
        ("default_pass = ''", "default_pass: expected text that is not empty, got something else"),
    ],
)
def test_what_does_not_fit_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, f"# a\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load(None, {}, translated=read_conf([path], {}).settings)
    assert str(caught.value).startswith(f"{path}:2: {said}")


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("listeners.tcp.1 = 127.0.0.1:5672\nlisteners.tcp.x = ::1:1", "server.listen", ("127.0.0.1:5672", "[::1]:1")),
        ("listeners.tcp = none\nlisteners.tcp.1 = 5672", "server.listen", ()),
        ("ssl_options.certfile = /etc/a.pem", "tls.certificate_file", "/image/etc/a.pem"),
        ("ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.1", "tls.minimum_version", "TLSv1.2"),
        ("ssl_options.ciphers.1 = A\nssl_options.ciphers.2 = B", "tls.ciphers", "A:B"),
        ("ssl_options.cacertfile = a\nmanagement.ssl.cacertfile = b", "tls.ca_file", "a"),
        (
            "message_interceptors.incoming.set_header_timestamp.overwrite = false",
            "message_interceptors.timestamp",
            "add",
        ),
        (
            "message_interceptors.incoming.set_header_routing_node.overwrite = true",
            "message_interceptors.routing_node",
            "overwrite",
        ),
        ("frame_max = 0", "limits.frame_max_bytes", 2**31 - 1),
        ("consumer_max_per_channel = infinity", "limits.consumers_per_channel_max", 0),
        ("channel_max = 7\nmax_channels_per_connection = 9", "limits.channel_max", 9),
        ("max_connections = infinity", "limits.connections_max", 0),
        ("cluster_queue_limit = infinity", "limits.queues_max", 0),
        ("prometheus.return_per_object_metrics = true", "prometheus.return_per_object_metrics", True),
        ("management.listener.ip = ::1\nmanagement.listener.port = 8080", "management.listen", ("[::1]:8080",)),
        ("log.dir = /var/log\nlog.file = r.log", "logs.file", "/image/var/log/r.log"),
        ("log.file = false", "logs.file", ""),
        ("log.file.level = warning", "logs.level", "warning"),
        ("default_queue_type = quorum", "defaults.queue_type", "quorum"),
        ("default_queue_type = rabbit_stream_queue", "defaults.queue_type", "stream"),
        ("loopback_users.guest = false\nloopback_users.app = true", "defaults.loopback_users", ("app",)),
        ("consumer_timeout = 900000", "limits.consumer_timeout_seconds", 900.0),
        (f"{MEMORY}.relative = 0.5\n{MEMORY}.absolute = 1", "memory.high_watermark_bytes", 0),
        ("load_definitions = /d.json", "definitions.file", "/image/d.json"),
        ("log.console.level = critical", "logs.level", "error"),
        ("heartbeat = 5\nheartbeat = 6", "limits.heartbeat_seconds", 6),
        ("deprecated_features.permit.global_qos = false", "deprecated_features.global_qos", "deny"),
        (
            "deprecated_features.permit.queue_master_locator = true",
            "deprecated_features.queue_master_locator",
            "permit",
        ),
        ("channel_max = 7", "limits.heartbeat_seconds", 9),  # of the settings file beneath
    ],
)
def test_a_key_is_a_setting_of_ours(tmp_path: Path, text: str, setting: str, value: object) -> None:
    other = write(tmp_path, "net_ticktime = 5\ncluster_formation.x = 1", "10.conf")
    conf = read_conf([write(tmp_path, text), other], {}, Path("/image"))
    config: Any = load(write(tmp_path, "[limits]\nheartbeat_seconds = 9", "toml"), {}, translated=conf.settings)
    section, field = setting.split(".")
    assert getattr(getattr(config, section), field) == value
    assert conf.without_effect == ["net_ticktime", "cluster_formation.x"]


def test_all_problems_of_a_file_are_named(tmp_path: Path) -> None:
    """Wrong lines, wrong values, and values out of the range of their setting."""
    file = write(tmp_path, "a\nlisteners.tcp.1 = x\nlisteners.tcp.2 = y\nheartbeat = 1\nfrage = 'b'c")
    with pytest.raises(ConfigError) as caught:
        read_conf([file], {})
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [f"{file}:{n}" for n in (1, 5, 2, 3)]
    file = write(tmp_path, "heartbeat = 70000\nframe_max = 1KB\nchannel_max = 5")
    with pytest.raises(ConfigError) as caught:
        load(None, {}, translated=read_conf([file], {}).settings)
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [f"{file}:{n}" for n in (1, 2)]


def test_units_are_rabbitmqs_and_http_may_listen_by_two_lines() -> None:
    assert [size(text) for text in ("1", "1k", "1kB", "1kib", "1MB", "1g")] == [1, 1024, 1000, 1024, 10**6, 2**30]
    assert [byte_size(text) for text in ("1", "1KB", "1kb", "1MB", "1gb")] == [1, 1024, 1024, 1 << 20, 1 << 30]
    rows = {row.setting: row for row in ROWS if not callable(row.convert)}
    assert rows["management.listen"].combine([("ip", "127.0.0.1"), ("port", 1)]) == ("127.0.0.1:1",)
    assert rows["management.tls_listen"].combine([("ip", "::1")]) == ("[::1]:15671",)
    assert rows["prometheus.listen"].combine([("port", 2)]) == tuple(addresses(None, 2))
