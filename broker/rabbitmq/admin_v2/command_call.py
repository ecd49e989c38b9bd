"""One call of a command of `rabbitmqadmin` version 2: its arguments, requests and output."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from broker.cli.table_output import echo, text
from broker.rabbitmq.admin.admin_http import Api, RequestFailed, RequestRefused
from broker.rabbitmq.admin_v2.command_tree import Parsed
from broker.rabbitmq.admin_v2.run_settings import WRONG_LINE, Failure, RunSettings
from broker.rabbitmq.admin_v2.shown_columns import KINDS, cells_of
from broker.rabbitmq.admin_v2.styled_tables import plain, styled


class CommandCall:
    """A command with its arguments."""

    def __init__(self, parsed: Parsed, settings: RunSettings) -> None:
        self.values, self.given, self.settings = parsed.values, parsed.given, settings
        self.vhost = settings.vhost
        self._api = Api(settings.endpoint)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> str:
        """The answer to a request; raises RequestRefused, Failure. `path` is below the API's own, without a slash."""
        uri = f"{self.settings.address}/{path}"
        if self.settings.verbose:
            echo(f"HTTP {method}: {uri}", err=True)
        sent = None if body is None else json.dumps(body).encode()
        try:
            return self._api.request(method, f"/{path}", sent, headers)
        except RequestRefused:
            raise
        except RequestFailed as error:
            text = f"Encountered an error when performing an HTTP request: error sending request for url ({uri})"
            raise Failure(f"{text}: {error}") from error

    def get(self, path: str) -> Any:
        """The answer to a GET, read. Raises RequestRefused, and Failure, also for one that is no JSON."""
        answer = self.ask("GET", path)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise Failure(f"The answer makes no sense: {error}") from error

    def list(self, path: str) -> list[dict[str, Any]]:
        """The rows of a list, those of a page if one is asked for; one object is a list of it. Raises as `get` does."""
        asked = [f"{key}={self.values[key]}" for key in ("page", "page_size") if self.values.get(key) is not None]
        answer = self.get(f"{path}?{'&'.join(asked)}" if asked else path)
        if asked and not isinstance(answer, dict):
            raise Failure(f"The API has no pages of {path}")
        found = answer["items"] if asked else answer
        return [found] if isinstance(found, dict) else list(found)

    def path(self, form: str, **more: str) -> str:
        """A path with names in braces: arguments, the virtual host, and `more`. Raises Failure for an empty name."""
        values = {"vhost": self.vhost, **self.values, **more}
        quoted = {name: quote(str(value), "", errors="surrogateescape") for name, value in values.items()}
        path = form.format_map(quoted)
        if "//" in f"{path}/":
            raise Failure("an argument that names something is empty", WRONG_LINE)
        return path

    def json(self, key: str) -> dict[str, Any]:
        """An argument that is a JSON object. Raises Failure."""
        return self.object_in(self.values[key])

    @staticmethod
    def any_json(given: str) -> Any:
        """The value of a text in JSON. Raises Failure."""
        try:
            return json.loads(given)
        except ValueError as error:
            raise Failure(f"Failed to parse JSON argument: `{given}` is not a valid JSON: {error}") from error

    def object_in(self, given: str) -> dict[str, Any]:
        """The object that a text is in JSON. Raises Failure."""
        found = self.any_json(given)
        if not isinstance(found, dict):
            raise Failure(f"Failed to parse JSON argument: `{given}` is not a valid JSON: expected a map")
        return found

    def whole(self, key: str, *, signed: bool = False) -> int:
        """An argument that is a whole number. Raises Failure."""
        given = self.values[key]
        digits = given.removeprefix("-") if signed else given
        if not (digits.isascii() and digits.isdigit()):
            message = f"Invalid value for argument '{key}': invalid digit found in string"
            raise Failure(message, WRONG_LINE)
        return int(given)

    def show(self, kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Print rows as a table of their kind, or of the columns asked for. Raises Failure."""
        asked = self.values.get("columns")
        wanted = None if asked is None else [name.strip() for name in asked.split(",") if name.strip()]
        unknown = set(wanted or ()) - {column.heading for column in KINDS[kind]}
        if unknown:
            known = ", ".join(column.heading for column in KINDS[kind])
            names = ", ".join(sorted(unknown))
            raise Failure(
                f"Unsupported argument value for property (field) columns: {names}; known: {known}", WRONG_LINE
            )
        self.table(cells_of(kind, _printable(rows) if sys.stdout.isatty() else rows, wanted))

    def table(self, rows: Sequence[Sequence[str]], title: str | None = None) -> None:
        """Print a table; its first row is the heading."""
        if sys.stdout.isatty():
            rows = [["\n".join(map(text, cell.split("\n"))) for cell in row] for row in rows]
        settings = self.settings
        lines = plain(rows, title) if settings.non_interactive else styled(rows, settings.style, title)
        for line in lines:
            echo(line, color=True)

    def say(self, said: str) -> None:
        """Print a line, unless less is wanted."""
        if not self.settings.quiet:
            echo(said)


def _printable(value: Any) -> Any:
    """The same with control characters escaped in all texts, so that no name forges a row on a terminal."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def refusal_text(error: RequestRefused) -> str:
    """The text for a request that the API refuses."""
    if error.status == HTTPStatus.NOT_FOUND:
        return "API responded with a 404 Not Found"
    words = f"{error.status} {error.words}"
    if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return error.reason or f"API responded with a client error: status code of {words}"
    behind = f"\n\n{error.reason}" if error.reason else ""
    return f"API responded with a server error: status code of {words}{behind}"
