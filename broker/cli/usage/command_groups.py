"""Groups of commands: overviews whose lines are whole, an example for each, words in the singular and the plural."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from broker.cli.catalogue import SECTIONS, TOP
from broker.cli.named_directory import data_directory_options


class CommandWithExample(click.Command):
    """A command with an example at the end of its help: `example` is what follows its name there.

    `elsewhere` are the names that others, above all RabbitMQ, have for it, with blanks between.
    """

    def __init__(self, *arguments: Any, example: str = "", elsewhere: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.example = example
        self.elsewhere = elsewhere.split()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, _path(ctx), self.example)


class Commands(click.Group):
    """A group of commands. The options that name a data directory may stand behind its name, too."""

    command_class = CommandWithExample

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        data_directory_options(self)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = meant(cmd_name, self.list_commands(ctx))
        return None if known is None else self.known_command(ctx, known)

    def known_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name that `list_commands` has."""
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            raise click.UsageError(self.unknown(ctx, args[0]), ctx)
        return super().resolve_command(ctx, args)

    def unknown(self, ctx: click.Context, word: str) -> str:
        """Return the error for a word that names no command."""
        # Imported here: hardly any command line is wrong.
        from broker.cli.usage.suggestions import meant_in_group

        return meant_in_group(_path(ctx), word, self.list_commands(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(command)) for name, command in commands.items() if command])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example of one of the commands."""
        super().format_epilog(ctx, formatter)
        for name, command in self.commands.items():
            if isinstance(command, CommandWithExample):
                _write_example(formatter, f"{_path(ctx)} {name}", command.example)
                return


class Verbs(Commands):
    """The commands of `leveret`. Only the one that is used is imported: starting the broker is in a hurry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TOP)

    def known_command(self, ctx: click.Context, name: str) -> click.Command | None:
        module, _, attribute = TOP[name].where.partition(":")
        command = getattr(importlib.import_module(f"broker.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, TOP))
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), row.summary) for name, row in rows.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _suggestions():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _suggestions():
            return super().invoke(ctx)

    def unknown(self, ctx: click.Context, word: str) -> str:
        from broker.cli.usage.suggestions import meant_command

        return meant_command(word, plain_commands(self, ctx))


def plain_commands(group: Commands, ctx: click.Context) -> Iterator[tuple[str, CommandWithExample]]:
    """Yield every command below a group that is no group and none of RabbitMQ's, by the words that name it."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, CommandWithExample):
            yield name, command
        elif isinstance(command, Commands):
            yield from ((f"{name} {below}", each) for below, each in plain_commands(command, ctx))


@contextmanager
def _suggestions() -> Iterator[None]:
    try:
        yield
    except click.NoSuchOption as error:
        # Imported here: hardly any command line is wrong.
        from broker.cli.usage.suggestions import meant_option

        raise click.UsageError(meant_option(error), error.ctx) from error
    except click.MissingParameter as error:
        if not isinstance(error.param, click.Argument):
            raise
        from broker.cli.usage.suggestions import missing_argument

        raise click.UsageError(missing_argument(error, _path), error.ctx) from error


def _path(ctx: click.Context) -> str:
    """The names of a command and of the groups it is in, as it is called."""
    above = f"{_path(ctx.parent)} " if ctx.parent else ""
    return f"{above}{ctx.command.name}"


def _write_example(formatter: click.HelpFormatter, path: str, example: str) -> None:
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write(
            f"{'':{formatter.current_indent}}Example: {f'{path} {example}'.rstrip()}\n"
        )  # in one line, however long it is


def meant(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word means: itself, or in the other number, or with `_` for `-`."""
    names = list(known)
    if word in names:
        return word
    return next((name for name in names if _singular(name) == _singular(word)), None)


def _singular(word: str) -> str:
    return re.sub("s$", "", re.sub("ies$", "y", word.replace("_", "-")))


def _summary(command: click.Command) -> str:
    """The beginning of the help: its first sentence, or what stands before a semicolon or a colon."""
    text = " ".join((command.short_help or command.help or "").split("\n\n")[0].split())
    return re.split(r"[;:.](?: |$)", text)[0]
