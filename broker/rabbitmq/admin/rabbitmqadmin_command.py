"""A command line of `rabbitmqadmin` read, sent to the management API, and its answer shown."""

from __future__ import annotations

import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from broker.admin.json_input.strict_json import decode_json
from broker.admin.protocol import AdministrationError
from broker.cli.table_output import echo
from broker.config import ConfigError
from broker.rabbitmq.admin.admin_formats import FORMATS, PRETTY_JSON, RAW_JSON, shown
from broker.rabbitmq.admin.admin_help import HELP_TOPICS, completion
from broker.rabbitmq.admin.admin_http import Api, RequestFailed
from broker.rabbitmq.admin.admin_kinds import (
    CHANGED,
    GET,
    GOT,
    GOT_TO_FILE,
    IN_JSON,
    LISTED,
    PUBLISH,
    SHOWN,
    ChangedKind,
    ListedKind,
)
from broker.rabbitmq.admin.admin_options import (
    Options,
    WrongOption,
    WrongUsage,
    parser,
    read_options,
    warnings,
)

FAILED, WRONG_OPTION = 1, 2
DONE = {"declare": "declared", "delete": "deleted", "close": "closed", "purge": "purged"}
LETTERS = {"queue": "q", "exchange": "e"}
"""Words for a binding's destination in the API's paths."""


class NotJson(Exception):
    """An argument that has to be JSON is not."""


class Arguments:
    """`name=value` arguments, checked against what a kind takes. Raises WrongUsage, NotJson."""

    def __init__(self, kind: ChangedKind, words: Sequence[str], vhost: str) -> None:
        self._kind = kind
        self.given = {name: default for name, default in kind.possible.items() if default is not None}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise WrongUsage(f'Argument "{word}" not in the name=value format')
            if name not in kind.named:
                raise WrongUsage(f'Argument "{name}" is not recognised')
            self.given[name] = value
        for needed in kind.needed:
            self._require(needed)
        self.given.setdefault("vhost", vhost)

    def _require(self, needed: str) -> None:
        names = needed.split("|")
        if any(name in self.given for name in names):
            return
        if len(names) > 1:
            raise WrongUsage(f'one of mandatory arguments "{names}" is required')
        raise WrongUsage(f'mandatory argument "{needed}" is required')

    @property
    def path(self) -> str:
        """Return the path below /api."""
        letter = LETTERS.get(self.given.get("destination_type", ""), self.given.get("destination_type", ""))
        values = {name: quote(value, "", errors="surrogateescape") for name, value in self.given.items()}
        path = self._kind.path.format_map({**values, "destination_type": letter})
        if "//" in path:
            raise WrongUsage("an argument that names something is empty")
        return f"/{path}"

    @property
    def body(self) -> bytes:
        """All of them, as the API takes them."""
        values: dict[str, Any] = {name: _value(name, value) for name, value in self.given.items()}
        if "queue_type" in values and "arguments" in values:
            values["arguments"]["x-queue-type"] = values["queue_type"]
        return json.dumps(values).encode()


def _value(name: str, text: str) -> Any:
    if name not in IN_JSON:
        return text
    try:
        return decode_json(text)
    except ValueError:
        raise NotJson(f"Could not parse JSON:\n  {text}") from None


class AdminLine:
    """One command line."""

    def __init__(self, options: Options, words: Sequence[str]) -> None:
        self._options = options
        self._api = Api(options.endpoint)
        self._action, *self._words = words

    def run(self) -> None:
        """Carry it out. Raises WrongUsage, NotJson, RequestFailed, OSError."""
        actions: dict[str, Callable[[], None]] = {
            "help": self._help,
            "list": lambda: self._list(LISTED),
            "show": lambda: self._list(SHOWN),
            "publish": self._publish,
            "get": self._get,
            "export": self._export,
            "import": self._import,
            **dict.fromkeys(DONE, self._change),
        }
        if self._action not in actions:
            raise WrongUsage(f"Action {self._action} not understood")
        actions[self._action]()

    def _say(self, text: str) -> None:
        if not self._options.quiet:
            click.echo(text)

    def _help(self) -> None:
        if not self._words:
            parser().print_help()
            return
        if len(self._words) > 1:
            raise WrongUsage("Exactly one argument required")
        if self._words[0] not in HELP_TOPICS:
            raise WrongUsage("\n  ".join(["help topic must be one of:", *HELP_TOPICS]))
        click.echo(HELP_TOPICS[self._words[0]]())

    def _list(self, kinds: dict[str, ListedKind]) -> None:
        if not self._words:
            raise WrongUsage("Type not specified")
        name, *columns = self._words
        if name not in kinds:
            raise WrongUsage(f"Don't know how to {self._action} {name}")
        kind, options = kinds[name], self._options
        if not columns and options.depth is None and options.format not in (RAW_JSON, PRETTY_JSON):
            columns = list(kind.columns)
        vhost = f"/{quote(options.vhost, '')}" if kind.in_vhost and options.vhost else ""
        asked = [
            *([f"columns={','.join(quote(name, '@') for name in columns)}"] if columns else []),
            *([f"sort={quote(options.sort, '')}"] if options.sort else []),
            *(["sort_reverse=true"] if options.sort_reverse else []),
        ]
        query = f"?{'&'.join(asked)}" if asked else ""
        self._show(self._api.request("GET", f"/{kind.path}{vhost}{query}"), kind, columns)

    def _show(self, answer: str, kind: ListedKind, columns: Sequence[str]) -> None:
        options = self._options
        if options.format not in FORMATS:
            raise WrongUsage(f"Format {options.format} not recognised; it is one of {', '.join(FORMATS)}")
        quiet, terminal = options.quiet, sys.stdout.isatty()
        for line in shown(answer, kind, columns, options.format, options.depth or 1, quiet=quiet, terminal=terminal):
            echo(line, color=True)

    def _change(self) -> None:
        kinds = CHANGED[self._action]
        if not self._words:
            raise WrongUsage("Type not specified")
        if self._words[0] not in kinds:
            raise WrongUsage(f"Type {self._words[0]} not recognised")
        kind = kinds[self._words[0]]
        arguments = Arguments(kind, self._words[1:], self._options.declare_vhost)
        self._api.request(kind.method, arguments.path, None if kind.method == "DELETE" else arguments.body)
        self._say(f"{self._words[0]} {DONE[self._action]}")

    def _publish(self) -> None:
        arguments = Arguments(PUBLISH, self._words, self._options.declare_vhost)
        if "payload" not in arguments.given:
            arguments.given["payload"] = b64encode(sys.stdin.buffer.read()).decode()
            arguments.given["payload_encoding"] = "base64"
        answer = json.loads(self._api.request(PUBLISH.method, arguments.path, arguments.body))
        self._say("Message published" if answer["routed"] else "Message published but NOT routed")

    def _get(self) -> None:
        arguments = Arguments(GET, self._words, self._options.declare_vhost)
        file = arguments.given.get("payload_file")
        if file and arguments.given["count"] != "1":
            raise WrongUsage("Cannot get multiple messages using payload_file")
        answer = self._api.request(GET.method, arguments.path, arguments.body)
        if file:
            _write_payload(Path(file), json.loads(answer))
        kind = GOT_TO_FILE if file else GOT
        self._show(answer, kind, kind.columns)

    def _definitions(self) -> str:
        return f"/definitions/{quote(self._options.vhost, '')}" if self._options.vhost else "/definitions"

    def _file(self) -> str:
        if len(self._words) != 1:
            raise WrongUsage("Exactly one argument required")
        return self._words[0]

    def _export(self) -> None:
        file = self._file()
        answer = self._api.request("GET", self._definitions())
        # It holds password hashes.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as out:  # noqa: PTH123
            out.write(answer)
        self._say(f'Exported definitions for {self._options.host} to "{file}"')

    def _import(self) -> None:
        file = self._file()
        self._api.request("POST", self._definitions(), Path(file).read_bytes())
        later = "The import process may take some time. Consult server logs to track progress."
        self._say(f'Uploaded definitions from "{self._options.host}" to {file}. {later}')


def _write_payload(file: Path, messages: Sequence[Any]) -> None:
    for message in messages:
        payload: str = message["payload"]
        encoded = message["payload_encoding"] == "base64"
        file.write_bytes(b64decode(payload) if encoded else payload.encode("utf-8", "surrogateescape"))


def run(words: Sequence[str]) -> int:
    """Carry out a command line; the exit code."""
    try:
        options, rest = read_options(words)
        for warning in warnings(options):
            echo(f"WARNING: {warning}\n", err=True)
        if options.bash_completion:
            click.echo(completion())
            return 0
        if not rest:
            raise WrongUsage("Action not specified")
        AdminLine(options, rest).run()
    except WrongOption as error:
        echo(f"{parser().get_usage()}\nrabbitmqadmin: error: {error}", err=True)
        return WRONG_OPTION
    except WrongUsage as error:
        echo(f"\nERROR: {error}\n\nrabbitmqadmin --help for help\n", err=True)
    except NotJson as error:
        echo(f"ERROR: {error}", err=True)
    except BrokenPipeError:
        raise  # it is standard output: click ends silently
    except (RequestFailed, AdministrationError, ConfigError, OSError) as error:
        echo(f"*** {error}\n", err=True)
    except ValueError as error:
        echo(f"*** The answer makes no sense: {error}\n", err=True)
    else:
        return 0
    return FAILED
