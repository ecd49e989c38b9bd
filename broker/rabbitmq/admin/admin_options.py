"""Options of `rabbitmqadmin`: on its command line, and in a configuration file."""

from __future__ import annotations

import configparser
import sys
from collections.abc import Sequence
from optparse import SUPPRESS_HELP, OptionParser, TitledHelpFormatter
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import SplitResult, urlsplit

from broker.config import IdentitySettings
from broker.rabbitmq.admin.admin_http import Endpoint
from broker.rabbitmq.admin.named_address import named_address

DEFAULTS = {
    "config": "~/.rabbitmqadmin.conf",
    "node": "default",
    "host": "localhost",
    "port": "15672",
    "path_prefix": "",
    "username": "guest",
    "password": "guest",
    "request_timeout": "120",
    "format": "table",
}
OPTIONS = """
config    | c | FILE    | configuration file
node      | N | SECTION | section of the configuration file
host      | H | HOST    | host of the management API
port      | P | PORT    | port of the management API
path-prefix | | PATH    | path that stands before /api
vhost     | V | VHOST   | virtual host [default: all for list, / for declare]
username  | u | USER    | user to log in as
password  | p | WORD    | password of the user
base-uri  | U | URI     | scheme, host and port of the management API in one, perhaps with user and password
quiet     | q |         | print only what is asked for
ssl       | s |         | connect with TLS
ssl-key-file  | | FILE  | private key (PEM)
ssl-cert-file | | FILE  | certificate to show (PEM)
ssl-ca-cert-file | | FILE | certificates of the authorities that are trusted (PEM)
ssl-disable-hostname-verification | | | take a certificate of another name
ssl-insecure | k |      | take any certificate
request-timeout | t | SECONDS | how long an answer may take
format    | f | FORMAT  | form of lists: raw_json, pretty_json, tsv, long, table, kvp or bash
sort      | S | COLUMN  | sort lists by a column
sort-reverse | R |      | sort lists the other way round
depth     | d | DEPTH   | how many levels of tables in tables become columns [default: 1]
bash-completion | | |     print a script for completion in bash
"""
"""Name, short name, metavariable (none for flags), and help."""

_ROWS = [[part.strip() for part in line.split("|")] for line in OPTIONS.strip().splitlines()]
FLAGS = frozenset(name.replace("-", "_") for name, _, given, _ in _ROWS if not given)
KEYS = frozenset(name.replace("-", "_") for name, *_ in _ROWS) | {"declare_vhost"}
"""The settings of a configuration file, and those of them that are on or off."""
ADDRESS = frozenset({"host", "port", "base_uri"})

MORE_HELP = """
More Help
=========

  rabbitmqadmin help subcommands  # the subcommands and their arguments
  rabbitmqadmin help config       # the configuration file
"""


class WrongUsage(Exception):
    """The command line, or the configuration file, makes no sense."""


class WrongOption(WrongUsage):
    """An option that is not known, or has no value."""


class _Parser(OptionParser):
    def print_help(self, file: object = None) -> None:
        super().print_help()
        sys.stdout.write(MORE_HELP)

    def error(self, msg: str) -> NoReturn:
        raise WrongOption(msg)


def parser() -> OptionParser:
    """Return the parser of the command line."""
    made = _Parser(
        "rabbitmqadmin [options] subcommand",
        formatter=TitledHelpFormatter(),
        prog="rabbitmqadmin",
        version=f"%prog {IdentitySettings().version}",
    )
    for name, letter, given, about in _ROWS:
        names = [*([f"-{letter}"] if letter else []), f"--{name}"]
        key = name.replace("-", "_")
        if not given:
            made.add_option(*names, dest=key, action="store_true", help=about)
            continue
        default = f" [default: {DEFAULTS[key]}]" if DEFAULTS.get(key) else ""
        made.add_option(*names, dest=key, metavar=given, help=about + default)
    made.add_option("--declare-vhost", dest="declare_vhost", help=SUPPRESS_HELP)
    return made


class Options(NamedTuple):
    """Options of a command line, else of the configuration file, else their defaults."""

    host: str
    port: int
    path_prefix: str
    username: str
    password: str
    vhost: str | None
    declare_vhost: str
    """The virtual host of what is changed; `vhost` is that of lists, None for all."""
    ssl: bool
    ssl_key_file: str | None
    ssl_cert_file: str | None
    ssl_ca_cert_file: str | None
    ssl_disable_hostname_verification: bool
    ssl_insecure: bool
    request_timeout: int
    format: str
    sort: str | None
    sort_reverse: bool
    depth: int | None
    """None: not said, which is 1 with the usual columns; otherwise there are all."""
    quiet: bool
    bash_completion: bool
    base_uri: str | None

    @property
    def endpoint(self) -> Endpoint:
        """The API that they name."""
        return Endpoint(
            self.host,
            self.port,
            f"{self.path_prefix}/api",
            self.username,
            self.password,
            self.request_timeout,
            tls=self.ssl,
            authorities_file=self.ssl_ca_cert_file,
            certificate_file=self.ssl_cert_file,
            key_file=self.ssl_key_file,
            any_name=self.ssl_disable_hostname_verification,
            any_certificate=self.ssl_insecure,
        )


def read_options(words: Sequence[str]) -> tuple[Options, list[str]]:
    """The options and the other words of a command line. Raises WrongUsage, and as `named_address` does."""
    reader = parser()
    values, rest = reader.parse_args(list(words))
    given = {name: getattr(values, name) for name in KEYS if getattr(values, name) is not None}
    if not given.get("request_timeout", "0").isdigit():
        reader.error(f"option -t: invalid integer value: {given['request_timeout']!r}")
    file = _of_file(given.get("config"), given.get("node"))
    chosen_file = file if given.keys() & {"config", "node"} else {}
    found = {} if ADDRESS & (given.keys() | chosen_file.keys()) else _of_directory()
    said = file | found | given
    settings = {**dict.fromkeys(KEYS), **DEFAULTS, **said, **({} if found else _of_uri(said.get("base_uri")))}
    chosen = {name: settings[name] for name in Options._fields}
    chosen |= {name: bool(chosen[name]) for name in FLAGS}
    chosen["declare_vhost"] = given.get("vhost") or settings["declare_vhost"] or settings["vhost"] or "/"
    try:
        chosen |= {name: int(chosen[name]) for name in ("port", "request_timeout", "depth") if chosen[name] is not None}
    except ValueError as error:
        raise WrongUsage(str(error)) from error
    return Options(**chosen), rest


def _of_directory() -> dict[str, Any]:
    """Host and port of the broker whose data directory is named, else nothing."""
    address = named_address()
    if address is None:
        return {}
    return {"host": address.host, "port": address.port, **({"ssl": True} if address.tls else {})}


def _of_file(file: str | None, section: str | None) -> dict[str, Any]:
    """Return the chosen section of the configuration file."""
    path, name = file or DEFAULTS["config"], section or DEFAULTS["node"]
    found = configparser.ConfigParser()
    try:
        if not found.read(Path(path).expanduser(), encoding="utf-8"):
            if file:
                raise WrongUsage(f"Could not read config file '{path}'")
            return {}
        settings: dict[str, Any] = {"host" if key == "hostname" else key: value for key, value in found.items(name)}
        settings |= {key: found.getboolean(name, key) for key in FLAGS & settings.keys()}
    except configparser.NoSectionError as error:
        if not section:
            return {}
        raise WrongUsage(f"Could not read section '{name}' in config file '{path}':\n   {error}") from error
    except (configparser.Error, ValueError) as error:
        raise WrongUsage(f"Could not read config file '{path}':\n   {error}") from error
    for key in settings:
        if key not in KEYS:
            raise WrongUsage(f"Unknown setting '{key}' in section '{name}' of config file '{path}'")
    return settings


def _of_uri(uri: str | None) -> dict[str, Any]:
    """Host, port, user and password of a base URI."""
    if not uri:
        return {}
    parts = _parts(uri)
    found = {"host": parts.hostname, "port": parts.port, "username": parts.username, "password": parts.password}
    found |= {"ssl": True} if parts.scheme == "https" else {}
    return {name: value for name, value in found.items() if value is not None}


def _parts(uri: str) -> SplitResult:
    return urlsplit(uri if "://" in uri else f"//{uri}")


def warnings(options: Options) -> list[str]:
    """Parts of the options that have no effect."""
    if options.base_uri is None or not _parts(options.base_uri).path.strip("/"):
        return []
    return ["path in --base-uri is ignored. Please specify --vhost and/or --path-prefix separately."]
