"""Groups of commands: overviews whose lines are whole, an example for each, words in the singular and the plural."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from broker.cli.catalogue import EXAMPLES, SECTIONS, TOP
from broker.cli.named_directory import data_directory_options


class Commands(click.Group):
    """A group of commands. The options that name a data directory may stand behind its name, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        data_directory_options(self)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = meant(cmd_name, self.list_commands(ctx))
        return None if known is None else self.known_command(ctx, known)

    def known_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name that `list_commands` has."""
        return with_example(super().get_command(ctx, name), self.name or "", name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(command)) for name, command in commands.items() if command])


class Verbs(Commands):
    """The commands of `leveret`. Only the one that is used is imported: starting the broker is in a hurry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TOP)

    def known_command(self, ctx: click.Context, name: str) -> click.Command | None:
        module, _, attribute = TOP[name].where.partition(":")
        command = getattr(importlib.import_module(f"broker.{module}"), attribute)
        assert isinstance(command, click.Command)
        return with_example(command, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, TOP))
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(row.path.ljust(width), row.summary) for row in rows if row.where])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _suggestions():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _suggestions():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            from broker.cli.usage.suggestions import meant_command

            raise click.UsageError(meant_command(args[0]), ctx)
        return super().resolve_command(ctx, args)


@contextmanager
def _suggestions() -> Iterator[None]:
    try:
        yield
    except click.NoSuchOption as error:
        # Imported here: hardly any command line is wrong.
        from broker.cli.usage.suggestions import meant_option

        raise click.UsageError(meant_option(error), error.ctx) from error


def with_example(command: click.Command | None, *path: str) -> click.Command | None:
    """The command, with an example at the end of its help; a group with that of one of its commands."""
    words = " ".join(filter(None, path))
    example = EXAMPLES.get(words) or next((EXAMPLES[each] for each in EXAMPLES if each.startswith(f"{words} ")), None)
    if command is not None and example is not None:
        command.epilog = f"\b\nExample: leveret {example}"  # \b: in one line, however long it is
    return command


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
