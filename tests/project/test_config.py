"""Settings: the example file is the code's mirror, and a wrong setting is named exactly."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from broker.config import Address, Config, ConfigError, parse_address
from broker.environment_settings import CHECK_INVARIANTS
from broker.settings_loader import load
from harness.project import ROOT
from tests.pipeline.inputs.command import leveret

EXAMPLE = ROOT / "config.example.toml"


def write(directory: Path, text: str) -> Path:
    path = directory / "leveret.toml"
    path.write_text(text)
    return path


def test_the_example_is_the_defaults() -> None:
    assert load(EXAMPLE, {}) == Config()


def test_the_example_shows_every_setting() -> None:
    shown = {section: set(keys) for section, keys in tomllib.loads(EXAMPLE.read_text()).items()}
    tree = msgspec.to_builtins(Config())
    assert shown == {section: set(keys) for section, keys in tree.items()}


def test_every_setting_of_the_example_has_its_reason_above_it() -> None:
    lines = EXAMPLE.read_text().splitlines()
    bare = [
        line
        for above, line in itertools.pairwise(lines)
        if "=" in line[:30] and line[0] != "#" and not above.startswith("# ")
    ]
    assert bare == []


def test_names_of_quantities_say_their_unit() -> None:
    """A number that is neither a count nor a fraction carries bytes, seconds or milliseconds in its name."""
    counts = {"backlog", "channel_max", "high_watermark", "keep"}
    counts |= {"wrong_passwords_max", "require_certificate", "login_san_index"}  # and a yes or no
    counts |= {"handshakes_max", "queues_max", "exchanges_max", "reads_max", "kept_bases"}
    counts |= {"connections_max", "consumers_per_channel_max", "queue_window_messages", "backlog_batches_max"}
    for section in msgspec.to_builtins(Config()).values():
        for name, value in section.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name not in counts:
                assert re.search("bytes|seconds|milliseconds", name), name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[limits]\nchannel_max = "abc"', 'limits.channel_max: expected int between 0 and 65535, got "abc"'),
        ("[limits]\nchannel_max = 65536", "limits.channel_max: expected int between 0 and 65535, got 65536"),
        ("[limits]\nchannel_maxx = 1", "limits.channel_maxx: there is no such setting; did you mean channel_max?"),
        ("[limit]\n", "limit: there is no such setting; did you mean limits?"),
        ("[shutdown]\nqq = 1", "shutdown.qq: there is no such setting (known: timeout_seconds)"),
        ("limits = 3", "limits: expected a section, got 3"),
        ("[server]\nlisten = [5672]", "server.listen.0: expected text, got 5672"),
        ("[server]\nlisten = 5672", "server.listen: expected a list of texts, got 5672"),
        ('[server]\ndata_dir = ""', 'server.data_dir: expected text that is not empty, got ""'),
        ("[memory]\nhigh_watermark = 1.5", "memory.high_watermark: expected number above 0, at most 1, got 1.5"),
        ("[disk]\nfree_limit_bytes = -1", "disk.free_limit_bytes: expected int from 0 up, got -1"),
        ("[shutdown]\ntimeout_seconds = 0", "shutdown.timeout_seconds: expected number above 0, got 0"),
        ('[logs]\nform = "xml"', 'logs.form: expected "json" or "text", got "xml"'),
        ("[logs]\nlevel = 2026-01-01", 'expected "debug" or "error" or "info" or "warning", got "2026-01-01"'),
        ('[server]\nlisten = ["localhost"]', "server.listen: expected HOST:PORT or [IPV6]:PORT"),
        ("[limits", "is not TOML"),
        (f"[limits]\nchannel_max = {'1' * 5000}", "is not TOML: Exceeds the limit"),
        (f"[limits]\nchannel_max = {'[' * 5000}", "is not TOML: maximum recursion depth exceeded"),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_expected(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(caught.value).startswith(f"{path}: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("own.toml", "[limits]\nchannel_max = 7\nheartbeat_seconds = 8\n", "{file}: OK, 2 settings\n"),
        ("own.toml", "[limits]\nchannel_max = -1\n", "{file}: limits.channel_max: expected int between 0 and 65535, "),
        (
            "own.toml",
            '[tls]\nlisten = ["[::]:1"]\n',
            "{file}: tls.certificate_file: expected the file of a certificate in PEM",
        ),
        ("own.conf", "heartbeat = 7\nnet_ticktime = 6\n", "{file}: OK, 1 setting\nwithout effect here: net_"),
        ("own.conf", "heartbeat = x\n", "{file}:1: heartbeat: expected a whole number"),
        (
            "own.conf",
            "listeners.ssl.1 = 1\n",
            "{file}: tls.certificate_file: expected the file of a certificate in PEM",
        ),
    ],
)
def test_the_command_line_checks_a_file(tmp_path: Path, name: str, text: str, told: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    ended = leveret("config", "check", file)
    assert (ended.output + ended.errors).removeprefix("leveret: error: ").startswith(told.format(file=file))
    assert ended.code == (0 if ": OK, " in told else 1)


def test_all_problems_of_a_file_are_named(tmp_path: Path) -> None:
    path = write(
        tmp_path, 'own = 1\n[limits]\nchannel_max = -1\nheartbeat_seconds = 8\n[logs]\nlevel = "x"\nform = "y"\n'
    )
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    wrong = [line.removeprefix(f"{path}: ").partition(": ")[0] for line in str(caught.value).splitlines()]
    assert wrong == ["own", "limits.channel_max", "logs.level", "logs.form"]


def test_the_command_line_shows_the_example() -> None:
    assert leveret("config", "show") == (0, EXAMPLE.read_text(), "")


def test_the_environment_says_how_to_log(tmp_path: Path) -> None:
    path = write(tmp_path, '[logs]\nlevel = "error"')
    logs = load(path, {"LEVERET_LOG_LEVEL": "DEBUG", "LEVERET_LOG_FORM": "json"}).logs
    assert (logs.level, logs.form) == ("debug", "json")
    with pytest.raises(ConfigError, match='LEVERET_LOG_FORM: expected "json" or "text", got "xml"'):
        load(path, {"LEVERET_LOG_FORM": "xml"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load(tmp_path / "none.toml", {})
    (tmp_path / "leveret.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(tmp_path / "leveret.toml", {})


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    assert load(None, {}).server.addresses == [Address("localhost", 5672)]
    path = write(
        tmp_path, '[defaults]\nuser = "filed"\nvhost = "kept"\n[server]\ndata_dir = "filed"\nlisten = ["h:1"]\n'
    )
    environ = {"LEVERET_DEFAULT_USER": "ours", "RABBITMQ_DEFAULT_USER": "theirs", "RABBITMQ_DEFAULT_PASS": "secret"}
    config = load(path, environ, data_dir="given", listen=["[::1]:0"], definitions="b.json")
    assert (config.defaults.user, config.defaults.password, config.defaults.vhost) == ("ours", "secret", "kept")
    assert (config.server.directory, config.server.addresses) == (Path("given"), [Address("::1", 0)])
    assert (config.definitions.file, config.limits.heartbeat_seconds) == ("b.json", 60)
    assert load(None, {"LEVERET_DEFAULT_USER": "", "RABBITMQ_DEFAULT_USER": "r"}).defaults.user == "r", "empty is unset"
    assert not load(None, {}).debug.check_invariants
    assert load(None, {CHECK_INVARIANTS: "1"}).debug.check_invariants


@pytest.mark.parametrize(
    ("variable", "value", "setting", "expected"),
    [
        ("LEVERET_LISTEN", "0.0.0.0:1, [::]:2", "server.listen", ("0.0.0.0:1", "[::]:2")),
        ("LEVERET_MANAGEMENT_LISTEN", "off", "management.listen", ()),
        ("LEVERET_PROMETHEUS_LISTEN", "h:3", "prometheus.listen", ("h:3",)),
        ("LEVERET_LOG_LEVEL", "debug", "logs.level", "debug"),
        ("LEVERET_LOG_FORM", "json", "logs.form", "json"),
        ("LEVERET_LOOPBACK_USERS", "off", "defaults.loopback_users", ()),
        ("LEVERET_LOOPBACK_USERS", "a,b", "defaults.loopback_users", ("a", "b")),
        ("LEVERET_TLS_KEY_PASSWORD", "k", "tls.key_password", "k"),
    ],
)
def test_variables_of_the_environment_are_settings(variable: str, value: str, setting: str, expected: object) -> None:
    section, field = setting.split(".")
    assert getattr(getattr(load(None, {variable: value}), section), field) == expected


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "LEVERET_LISTEN",
            "5672",
            "LEVERET_LISTEN: expected HOST:PORT or [IPV6]:PORT with a port between 0 and 65535, ",
        ),
        ("LEVERET_LOG_FORM", "xml", 'LEVERET_LOG_FORM: expected "json" or "text", got "xml"'),
    ],
)
def test_a_variable_that_does_not_fit_is_named(variable: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {variable: value})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "text",
    ["", "5672", "host:", ":5672", "host:65536", "host:-1", "::1:5672", "host:five", "host:²", "host:" + "1" * 5000],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected HOST:PORT"):
        parse_address(text)
    with pytest.raises(ConfigError, match=r"^--listen: expected HOST:PORT"):
        load(None, {}, listen=[text])


def test_the_cluster_is_named_after_the_host_unless_told() -> None:
    assert Config().identity.shown_cluster_name.startswith("leveret@")
    assert msgspec.structs.replace(Config().identity, cluster_name="one").shown_cluster_name == "one"
