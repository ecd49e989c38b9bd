"""Settings in the format of rabbitmq.conf, and what they are here.

Format and units: RabbitMQ 3.10.8, asked by `rabbitmqctl eval`; quotes: the documentation of 3.13.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker.config import ConfigError, load
from broker.rabbitmq_conf.conf_keys import ROWS
from broker.rabbitmq_conf.conf_lines import read_lines
from broker.rabbitmq_conf.conf_translation import read_conf
from broker.rabbitmq_conf.conf_values import addresses, byte_size, size

MEMORY = "vm_memory_high_watermark"
IPV6 = socket.has_ipv6 and len(addresses(None, 1)) == 2


def write(directory: Path, text: str, name: str = "rabbitmq.conf") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a = b#c", [(("a",), "b")]),
        (" \ta.b-1 =  x y  # z\r\n\n  # a = 1\n\t\nc=d", [(("a", "b-1"), "x y"), (("c",), "d")]),
        ("a = b = c\na = '  #x ' # y\na = ''", [(("a",), "b = c"), (("a",), "  #x "), (("a",), "")]),
        ("loopback_users.a\\.b = false", [(("loopback_users", "a.b"), "false")]),
        ('a = "x"\nb = $(NAME)-$(NAME)ü', [(("a",), '"x"'), (("b",), "vv-vvü")]),
    ],
)
def test_a_line_is_a_key_and_a_value(tmp_path: Path, text: str, settings: list[tuple[tuple[str, ...], str]]) -> None:
    lines = read_lines([write(tmp_path, text)], {"NAME": "vv"})
    assert [(line.words, line.value) for line in lines] == settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "1: expected KEY = VALUE"),
        ("\n% a", "2: expected KEY = VALUE"),
        ("a b = c", "1: expected KEY = VALUE"),
        ("include conf.d/*.conf", "1: expected KEY = VALUE"),
        ("a =", "1: a: expected a value; an empty one is written ''"),
        ("a = 'b'c", "1: a: expected nothing but a comment behind the second single quote"),
        ("a = 'b", "1: a: expected nothing but a comment behind the second single quote"),
        ("a = $(NONE)", "1: the environment has no variable NONE"),
        ("heartbeat = 1m", "1: heartbeat: expected a whole number, got 1m"),
        ("heartbeat = 70000", "1: heartbeat: expected int between 0 and 65535, got 70000"),
        ("consumer_timeout = 0", "1: consumer_timeout: expected milliseconds, a whole number from 1 up, got 0"),
        ("frame_max = 1KB", "1: frame_max: expected int between 4096 and 2147483647, got 1KB"),
        ("listeners.tcp.1 = localhost:1", "1: listeners.tcp.1: expected a port such as 5672, or an IP addr"),
        ("listeners.ssl = 5671", "1: listeners.ssl: expected none, got 5671"),
        ("disk_free_limit.absolute = 1 GB", "1: disk_free_limit.absolute: expected bytes such as 50000000, 2GB"),
        ("vm_memory_high_watermark.relative = 40%", "1: vm_memory_high_watermark.relative: expected a number"),
        ("auth_mechanisms.1 = KERBEROS", '1: auth_mechanisms.1: expected "AMQPLAIN" or "EXTERNAL" or "PLAIN"'),
        ("ssl_options.verify = peer", "1: ssl_options.verify: expected verify_none or verify_peer, got peer"),
        ("loopback_users.guest = no", "1: loopback_users.guest: expected true or false, got no"),
        ("default_pass = encrypted:x", "1: default_pass: expected a value in the clear"),
        ("default_pass = ''", "1: default_pass: expected text that is not empty, got something else"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(None, {}, translated=read_conf([path], {}).settings)
    assert str(caught.value).startswith(f"{path}:{said}")


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("listeners.tcp.1 = 127.0.0.1:5672\nlisteners.tcp.x = ::1:1", "server.listen", ("127.0.0.1:5672", "[::1]:1")),
        ("listeners.tcp.1 = 5672", "server.listen", ("0.0.0.0:5672", "[::]:5672") if IPV6 else ("0.0.0.0:5672",)),
        ("listeners.tcp = none\nlisteners.tcp.1 = 5672", "server.listen", ()),
        ("ssl_options.certfile = /etc/a.pem", "tls.certificate_file", "/image/etc/a.pem"),
        ("ssl_options.versions.1 = tlsv1.3\nssl_options.versions.2 = tlsv1.1", "tls.minimum_version", "TLSv1.2"),
        ("ssl_options.ciphers.1 = A\nssl_options.ciphers.2 = B", "tls.ciphers", "A:B"),
        ("ssl_options.cacertfile = a\nmanagement.ssl.cacertfile = b", "tls.ca_file", "a"),
        ("loopback_users.guest = false\nloopback_users.app = true", "defaults.loopback_users", ("app",)),
        ("connection_max = infinity", "limits.connections_max", 0),
        ("consumer_timeout = 900000", "limits.consumer_timeout_seconds", 900.0),
        ("frame_max = 128KB", "limits.frame_max_bytes", 131072),
        ("vm_memory_high_watermark.absolute = 2GB", "memory.high_watermark_bytes", 2 * 10**9),
        (f"{MEMORY}.relative = 0.5\n{MEMORY}.absolute = 1", "memory.high_watermark_bytes", 0),
        ("load_definitions = /d.json", "definitions.file", "/image/d.json"),
        ("definitions.https.url = https://h/api/definitions", "definitions.file", "https://h/api/definitions"),
        ("log.console.level = critical", "logs.level", "error"),
    ],
)  # fmt: skip
def test_a_key_is_a_setting_of_ours(tmp_path: Path, text: str, setting: str, value: object) -> None:
    conf = read_conf([write(tmp_path, text)], {}, Path("/image"))
    section, field = setting.split(".")
    assert getattr(getattr(load(None, {}, translated=conf.settings), section), field) == value
    assert conf.without_effect == []


@pytest.mark.parametrize(
    ("setting", "found", "value"),
    [
        ("management.listen", [("ip", "127.0.0.1"), ("port", "1")], ("127.0.0.1:1",)),
        ("management.listen", [("ip", "::1")], ("[::1]:15672",)),
        ("management.tls_listen", [("ip", "127.0.0.1")], ("127.0.0.1:15671",)),
        ("prometheus.listen", [("ip", "0.0.0.0")], ("0.0.0.0:15692",)),
    ],
)
def test_where_http_listens_may_be_said_in_two_lines(
    setting: str, found: list[tuple[str, str]], value: tuple[str, ...]
) -> None:
    row = next(row for row in ROWS if row.setting == setting and not callable(row.convert))
    assert row.combine([(name, row.converter(name)(text)) for name, text in found]) == value


def test_later_lines_and_files_win_and_the_rest_is_named_once(tmp_path: Path) -> None:
    first = write(tmp_path, "heartbeat = 1\nheartbeat = 2\nchannel_max = 7\ncluster_formation.x = 1\nnet_ticktime = 5")
    second = write(tmp_path, "heartbeat = 3\nnet_ticktime = 6", "10.conf")
    conf = read_conf([first, second], {})
    assert conf.settings.tree == {"limits": {"heartbeat_seconds": 3, "channel_max": 7}}
    assert conf.without_effect == ["cluster_formation.x", "net_ticktime"]
    toml = write(tmp_path, "[limits]\nheartbeat_seconds = 9\nqueues_max = 5", "leveret.toml")
    limits = load(toml, {}, translated=conf.settings).limits
    assert (limits.heartbeat_seconds, limits.queues_max) == (3, 5)


def test_sizes_have_rabbitmqs_units() -> None:
    assert [size(text) for text in ("1", "1k", "1K", "1kB", "1kb", "1kiB", "1MiB", "1M", "1MB", "1g", "1GB")] == [
        1, 1024, 1024, 1000, 1000, 1024, 1048576, 1048576, 1000000, 1073741824, 1000000000,
    ]  # fmt: skip
    assert [byte_size(text) for text in ("1", "1KB", "1kb", "1MB", "1gb")] == [1, 1024, 1024, 1 << 20, 1 << 30]
