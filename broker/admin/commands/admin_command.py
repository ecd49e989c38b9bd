"""Commands: what an operator has a broker do. A class is a command, its fields are the arguments.

A command's name on the wire is its class's in lower case: `AddUser` is `add_user`. The command line loads the modules
of this folder too, and only sends what it makes of their classes: imports that only a broker needs are in methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UnsetType, structs

from broker.admin.protocol import AdministrationError, invalid

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View

Text = Annotated[str, msgspec.Meta(pattern=r"\A[^\ud800-\udc7f\udd00-\udfff]*\Z")]
"""A text that stands for bytes: UTF-8, or others escaped as single surrogates."""
Given = Text | UnsetType
"""A text that may be missing, which is not the same as null."""


class AdminCommand(msgspec.Struct, omit_defaults=True):
    """A command with its arguments. Its subclasses here say how it is carried out."""

    name_on_wire: ClassVar[str] = ""
    """The command's name where it is not its class's."""

    @classmethod
    def parse(cls, arguments: Mapping[str, object]) -> Self:
        """Make a command of arguments of any types. Unknown arguments are ignored.

        Raises AdministrationError `invalid`, which names an argument and never repeats its value: it may be a password.
        """
        try:
            return msgspec.convert(arguments, cls)
        except msgspec.ValidationError as error:
            raise _refusal(str(error)) from None

    def request(self) -> dict[str, Any]:
        """Return the command as it is sent to a broker, without arguments that have their default."""
        return {"command": command_name(type(self)), "arguments": msgspec.to_builtins(self)}


class Question(AdminCommand):
    """A command that is answered from memory, at once."""

    def answer(self, administration: Administration) -> object:
        """Return the answer, as JSON can hold it. Raises AdministrationError."""
        raise NotImplementedError


class LongQuestion(AdminCommand):
    """A command that reads from disk, asks the system or waits, perhaps for long: changes go on meanwhile."""

    async def answer(self, administration: Administration) -> object:
        """Return the answer, as JSON can hold it. Raises AdministrationError."""
        raise NotImplementedError


class AdminChange(AdminCommand):
    """A command that changes something. One is carried out at a time, and logged."""

    of_process: ClassVar[bool] = False
    """It changes the process alone, and so is carried out by a standby, too."""
    log_words: ClassVar[str]
    """A format of the arguments for its log line; never of a password."""

    async def apply(self, administration: Administration) -> object:
        """Return the answer once the change is on disk. Raises AdministrationError, having changed nothing."""
        raise NotImplementedError

    def log_line(self) -> str:
        """Return the sentence of its log line."""
        return self.log_words.format_map(structs.asdict(self))

    def log_fields(self) -> dict[str, Any]:
        """Return the fields of its log line for programs."""
        return {"vhost": getattr(self, "vhost", None)}


class ListCommand(AdminCommand):
    """A command that is answered row by row, from memory.

    A row has the `columns`, or all. With `typed`, field tables are lists of [name, type, value]; with `lenient`,
    unknown columns are empty texts.
    """

    columns: list[Text] | None = None
    typed: bool | None = None
    lenient: bool | None = None

    def view(self) -> View:
        """Return what is listed."""
        raise NotImplementedError

    def owner(self) -> str | None:
        """Return the name of the virtual host or user whose things are listed; None for all."""
        return None


class RowList(ListCommand):
    """A list of what is rows already: `row_columns` are their columns, `null` is shown where one is None."""

    row_columns: ClassVar[tuple[str, ...]]
    null: ClassVar[str | None] = ""

    def rows(self, administration: Administration) -> Iterable[dict[str, Any]]:
        """Return the rows. Raises AdministrationError at once."""
        raise NotImplementedError

    def view(self) -> View:
        """Return the rows as a view."""
        from broker.admin.views.listing import View, cells

        return View(lambda administration, owner: self.rows(administration), cells(*self.row_columns), self.null)


class VhostList(ListCommand):
    """A list of the things of one virtual host, or of all."""

    vhost: Text | None = None

    def owner(self) -> str | None:
        """Return the virtual host."""
        return self.vhost


def command_name(kind: type[AdminCommand]) -> str:
    """Return the name of a command on the wire."""
    return kind.name_on_wire or re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


_EXPECTED = {
    "array": "a list of texts",
    "str": "a text",
    "object": "names with values",
    "bool": "true or false",
    "int": "a number",
}
_MISSING = re.compile("Object missing required field `(.*)`")
_UNFIT = re.compile(r"Expected `([^`]*)`.* - at `\$\.(\w+)(\[?)", re.DOTALL)


def _refusal(text: str) -> AdministrationError:
    """Return msgspec's error in the words of the administration."""
    missing, unfit = _MISSING.match(text), _UNFIT.match(text)
    if missing:
        return invalid(f"argument {missing[1]} is missing")
    if unfit is None:
        return invalid("malformed arguments")
    kinds = "array" if unfit[3] else unfit[1]
    expected = next((words for kind, words in _EXPECTED.items() if kind in kinds.split(" | ")), "another value")
    return invalid(f"argument {unfit[2]}: expected {expected}")
