"""Target `settings`: a configuration or definitions file of anything is taken, or refused with what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from broker.admin.definitions.definitions_file import read_file
from broker.admin.protocol import AdministrationError
from broker.config import Config, ConfigError, parse_address
from broker.settings_loader import load
from tests.security.fuzz.broker_under_test import scratch_directory
from tests.security.fuzz.choices import Choices, once_in, pick
from tests.security.fuzz.targets.administration_input import definitions

_NAMES = ("moving", "src-uri")
"""Fields with names of other things in them: shovels."""
_SECTIONS: dict[str, tuple[str, ...]] = {
    name: tuple(getattr(getattr(Config(), name), "__struct_fields__", _NAMES)) for name in Config.__struct_fields__
}
_VALUES = (
    "0",
    "1",
    "-1",
    "65536",
    "1.5",
    "nan",
    "-inf",
    "true",
    '""',
    '"127.0.0.1:5672"',
    '"[::1]:0"',
    '["127.0.0.1:5672", ""]',
    '"a:99999"',
    "[]",
    "{}",
    "{a=1}",
    "1979-05-27T07:32:00Z",
    "07:32:00",
    "1e400",
    "0x" + "f" * 40,
    "9" * 5000,
    '["' + "1" * 5000 + '"]',
    '[":' + "1" * 5000 + '"]',
    "[" * 2000 + "]" * 2000,
    '"\\uFFFF"',
    '"\\u0000"',
)


def configuration(choices: Choices) -> bytes:
    """A TOML file with the settings' names in it and any values."""
    if once_in(choices, 4):
        return choices.data(400)
    lines = []
    for _ in range(choices.number(0, 4)):
        section = pick(choices, tuple(_SECTIONS))
        if choices.number(0, 15):
            lines.append(f"[{section}]")
        for _ in range(choices.number(0, 3)):
            name = pick(choices, (*_SECTIONS[section], "unknown", '"odd.name`$"', "''"))
            lines.append(f"{name} = {pick(choices, _VALUES)}")
    written = "\n".join(lines).encode()
    if once_in(choices, 4) and written:
        at = choices.number(0, len(written) - 1)
        written = written[:at] + choices.data(8) + written[at + choices.number(0, 8) :]
    return written


def _take_configuration(path: Path, choices: Choices) -> None:
    path.write_bytes(configuration(choices))
    try:
        config = load(path, {}, listen=["127.0.0.1:0"] if choices.number(0, 1) else ())
    except ConfigError as error:
        refusal = str(error)
    else:
        refusal = str(path)
        assert all(0 <= address.port <= 65535 for address in config.server.addresses)
        msgspec.json.encode(config)
    assert str(path) in refusal
    refusal.encode("utf-8", "surrogateescape")


def _take_definitions(path: Path, choices: Choices) -> None:
    path.write_bytes(_bent(choices, json.dumps(definitions(choices)).encode()))
    try:
        read_file(path)
        refusal = "invalid"
    except AdministrationError as error:
        refusal = error.kind
    assert refusal == "invalid"


def _bent(choices: Choices, written: bytes) -> bytes:
    how: Any = choices.number(0, 7)
    if how > 2:
        return written
    at = choices.number(0, len(written) - 1)
    wild = (choices.data(30), b"[" * 100_000, b'{"a":' * 5_000, b"9" * 5_000)
    return written[:at] + wild[pick(choices, (0, 0, 0, 0, 0, 1, 2, 3))] + written[at + choices.number(0, 8) :]


def _take_address(path: Path, choices: Choices) -> None:
    host, port = pick(choices, ("", "a", "[::1]", "::1", "[", "é")), pick(choices, ("0", "65536", "", "²", "1" * 5000))
    try:
        address = parse_address(f"{host}:{port}" if choices.number(0, 3) else choices.data(20).decode("latin-1"))
    except ConfigError:
        return
    assert 0 <= address.port <= 65535


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    with scratch_directory() as directory:
        kinds = (_take_configuration, _take_configuration, _take_definitions, _take_address)
        yield lambda choices: pick(choices, kinds)(directory / "file", choices)
