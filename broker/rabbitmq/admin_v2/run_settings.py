"""Settings of one run of `rabbitmqadmin` version 2: of its command line, the environment, and a file of sections."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from broker.rabbitmq.admin.admin_http import Endpoint
from broker.rabbitmq.admin.named_address import named_address
from broker.rabbitmq.admin_v2.styled_tables import DEFAULT, STYLES

USUAL_FILE, USUAL_SECTION = "~/.rabbitmqadmin.conf", "default"
HTTP_PORT, HTTPS_PORT = 15672, 15671
SECONDS = 60
WRONG_LINE, WRONG_DATA = 64, 65
"""Exit codes: a line, and data, that make no sense."""
KEYS: Mapping[str, tuple[str, type]] = {
    "hostname": ("host", str),
    "port": ("port", int),
    "base_uri": ("base_uri", str),
    "path_prefix": ("path_prefix", str),
    "scheme": ("scheme", str),
    "tls": ("use_tls", bool),
    "ca_certificate_bundle_path": ("tls_ca_cert_file", str),
    "client_certificate_file_path": ("tls_cert_file", str),
    "client_private_key_file_path": ("tls_key_file", str),
    "username": ("username", str),
    "password": ("password", str),
    "virtual_host": ("vhost", str),
    "table_style": ("table_style", str),
    "non_interactive": ("non_interactive", bool),
    "quiet": ("quiet", bool),
    "verbose": ("verbose", bool),
}
"""Keys of a section: the option that each stands for, and its type."""
ADDRESS, TLS = frozenset({"host", "port", "base_uri"}), frozenset({"use_tls", "scheme"})


class Failure(Exception):
    """A command that failed: the text, and the exit code."""

    def __init__(self, text: str, code: int = WRONG_DATA) -> None:
        super().__init__(text)
        self.code = code


class RunSettings(NamedTuple):
    """Settings of one run."""

    endpoint: Endpoint
    vhost: str
    style: str
    non_interactive: bool
    quiet: bool
    verbose: bool

    @property
    def address(self) -> str:
        """The endpoint as a URI."""
        host = f"[{self.endpoint.host}]" if ":" in self.endpoint.host else self.endpoint.host
        return f"{'https' if self.endpoint.tls else 'http'}://{host}:{self.endpoint.port}{self.endpoint.base}"


def run_settings(given: Mapping[str, Any]) -> RunSettings:
    """The settings of a command line with these options. Raises Failure, and as `named_address` does."""
    file = _section(given)
    chosen = file.keys() if given.keys() & {"config", "node"} else set()
    found = {} if ADDRESS & (given.keys() | chosen) else _of_directory()
    if found:
        file = {key: value for key, value in file.items() if key not in ADDRESS | TLS}
    said = {**file, **found, **given}
    if "base_uri" in said and not given.keys() & {"host", "port"}:
        said |= _of_uri(said["base_uri"])
    tls = bool(said.get("use_tls")) or said.get("scheme") == "https"
    style = str(said.get("table_style", DEFAULT)).lower()
    if style not in STYLES:
        raise Failure(f"Unsupported argument value for property (field) table_style: {style}", WRONG_LINE)
    return RunSettings(
        _endpoint(said, tls=tls),
        said.get("vhost", "/"),
        style,
        *(bool(said.get(key)) for key in ("non_interactive", "quiet", "verbose")),
    )


def _endpoint(said: Mapping[str, Any], *, tls: bool) -> Endpoint:
    return Endpoint(
        said.get("host", "localhost"),
        said.get("port", HTTPS_PORT if tls else HTTP_PORT),
        f"/{said.get('path_prefix', '/api').strip('/')}".rstrip("/"),
        said.get("username", "guest"),
        said.get("password", "guest"),
        said.get("timeout", SECONDS),
        tls=tls,
        authorities_file=said.get("tls_ca_cert_file"),
        certificate_file=said.get("tls_cert_file"),
        key_file=said.get("tls_key_file"),
        any_certificate=bool(said.get("insecure")),
    )


def _of_directory() -> dict[str, Any]:
    """The address of the broker whose data directory is named, else nothing; it takes the place of the usual file's."""
    address = named_address()
    return {} if address is None else {"host": address.host, "port": address.port, "use_tls": address.tls}


def _of_uri(uri: str) -> dict[str, Any]:
    parts = urlsplit(uri)
    if not parts.scheme or not parts.netloc:
        raise Failure(f"Invalid base URI '{uri}': relative URL without a base")
    if parts.scheme not in ("http", "https"):
        raise Failure(f"Invalid base URI '{uri}': unsupported URI scheme")
    try:
        port = parts.port
    except ValueError as error:
        raise Failure(f"Invalid base URI '{uri}': invalid port number") from error
    found: dict[str, Any] = {"host": parts.hostname or "localhost"}
    found |= {"port": port} if port is not None else {}
    return found | ({"scheme": "https"} if parts.scheme == "https" else {})


def file_of(given: Mapping[str, Any]) -> Path:
    """The file of sections that a command line names."""
    return Path(given.get("config", USUAL_FILE)).expanduser()


def _section(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the section that is named, by options. Raises Failure."""
    path, name = file_of(given), given.get("node", USUAL_SECTION)
    if "config" not in given and "node" not in given and not path.exists():
        return {}
    try:
        sections = read_sections(path)
        if name not in sections:
            if "config" not in given and "node" not in given:
                return {}
            text = f"specified configuration section (--node) '{name}' was not found in the configuration file"
            raise Failure(text)
        return _options(sections[name])
    except Failure as error:
        text = f"Encountered an error when trying to load configuration for node alias '{name}' in configuration file"
        raise Failure(f"{text} '{given.get('config', USUAL_FILE)}'\nUnderlying error: {error}") from error


def read_sections(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a file. Raises Failure."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Failure(f"the provided config file at '{path}' does not exist") from error
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        text = "failed to deserialize the config file. Make sure it is valid TOML. Details:"
        raise Failure(f"{text} {error}") from error
    for name, section in found.items():
        if not isinstance(section, dict):
            raise Failure(f"{name} stands in no section")
        _options(section)
    return found


def _options(section: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in section.items():
        option, kind = KEYS.get(key, (None, str))
        if option is None:
            raise Failure(f"unknown setting {key}; known: {', '.join(KEYS)}")
        if type(value) is not kind:
            raise Failure(f"setting {key} takes a {kind.__name__}, not {value!r}")
        found[option] = value
    return found
