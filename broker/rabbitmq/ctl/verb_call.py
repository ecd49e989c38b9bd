"""Verbs of RabbitMQ's command lines, and calls of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.protocol import AdministrationError
from broker.admin.socket_conversation import Conversation, connected
from broker.rabbitmq.ctl.dialect import DIALECTS
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import UNAVAILABLE, Outcome, ShownText, VerbRefusal


class VerbCall:
    """A verb with its arguments and options; and the broker, which is connected to when it is first asked."""

    def __init__(
        self,
        tool: str,
        name: str,
        arguments: Sequence[str],
        options: Mapping[str, Any],
        place: NodePlace,
    ) -> None:
        self.tool = tool
        self.name = name
        self.arguments = arguments
        self.options = options
        self.place = place
        self.dialect = DIALECTS[place.series]
        self.node: str = options.get("node") or place.node
        self.vhost: str = options.get("vhost", "/")
        self.timeout: float | None = options.get("timeout")
        self.conceals = False
        """Passwords in what is listed are hidden: it goes into a report, which is shown to others."""
        self._conversation: Conversation | None = None
        self._open = ExitStack()

    @property
    def quiet(self) -> bool:
        """Only what was asked for is to be written."""
        return bool(self.options.get("quiet") or self.options.get("silent"))

    def connect(self) -> Conversation:
        """The broker. Raises NotRunning."""
        if self._conversation is None:
            self._conversation = self._open.enter_context(connected(self.place.directory, self.timeout))
        return self._conversation

    def close(self) -> None:
        """Let the broker go."""
        self._open.close()

    def ask(self, command: AdminCommand) -> Any:
        """Have the broker carry out a command. Returns its answer. Raises AdministrationError."""
        return self.connect().ask(command)

    def done(self) -> ShownText:
        """There is nothing to be shown."""
        return ShownText((), {"node": self.node, "result": "ok"})

    def said(self, text: str) -> ShownText:
        """One line, which is a value in JSON."""
        return ShownText([text], {"node": self.node, "result": "ok", "value": text})

    def message(self, text: str) -> ShownText:
        """One line, which is a message in JSON."""
        return ShownText([text], {"message": text})


class NodePlace(NamedTuple):
    """The broker of a command line: data directory, node name, and RabbitMQ's version and series.

    `stopped`: it runs, and serves no clients since stop_app.
    """

    directory: Path
    node: str
    version: str
    series: str
    stopped: bool
    plugins_file: Path


def generally_refused(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    """Return the refusal of most verbs for an error of the broker."""
    return VerbRefusal(UNAVAILABLE, str(error))


class VerbAction(NamedTuple):
    """Handler of a verb, and its options beside the general ones.

    `check` raises Misuse before the broker is asked anything. `refused` makes an exit code of an error of the broker.
    `banner` is for one that is more than a text with values in it. `form` is the formatter where none is asked for.
    """

    run: Callable[[VerbCall], Outcome]
    refused: Callable[[VerbCall, AdministrationError], VerbRefusal] = generally_refused
    options: tuple[Option, ...] = ()
    check: Callable[[VerbCall], None] | None = None
    banner: Callable[[VerbCall], str] | None = None
    alone: bool = False
    """It needs no broker, or looks for one itself."""
    form: str = "table"
    while_stopped: bool = False
    """It is carried out after stop_app, too; so are those that are `alone`."""


def asking(
    command: Callable[..., AdminCommand],
    refused: Callable[[VerbCall, AdministrationError], VerbRefusal] = generally_refused,
    banner: Callable[[VerbCall], str] | None = None,
) -> VerbAction:
    """Return a verb that has the broker carry out the command made of the call and its arguments, and shows nothing."""

    def run(call: VerbCall) -> Outcome:
        call.ask(command(call, *call.arguments))
        return call.done()

    return VerbAction(run, refused, banner=banner)
