"""Options of jobs on Spark: where they run, where events come from, of which time, and where results go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import click

from broker.admin.protocol import AdministrationError
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.target_broker import Target

Command = TypeVar("Command", bound=Callable[..., Any])


class Source(NamedTuple):
    """Where events come from: a directory or a URI, and the data source's options for it."""

    where: str
    options: dict[str, str]

    def require(self) -> None:
        """Raises OSError when this is a directory of this machine and cannot be read."""
        pipeline_module("event_frames").require_directory(self.where)

    def read(self, spark: Any) -> Any:
        """The events as a DataFrame."""
        return pipeline_module("event_frames").read_events(spark, self.where, self.options)


class Setting(NamedTuple):
    """Where a job runs, and where it leaves what it makes."""

    out: str
    master: str
    settings: dict[str, str]

    @contextmanager
    def place(self, job: str, source: Source | None) -> Iterator[Any]:
        """Start Spark; the directory for results. The report is written from them when the job has ended.

        Raises AdministrationError, and OSError for a source that is not there: sooner than Spark could.
        """
        if source is not None:
            source.require()
        jobs, places, page = map(pipeline_module, ("jobs.audit_job", "spark.file_places", "report.page"))
        progress = sys.stderr.isatty()
        try:
            with jobs.spark_for(job, master=self.master, settings=self.settings, progress=progress) as spark:
                place = places.Place(spark, self.out)
                yield place
                page.write_report(place)
        except jobs.JobError as error:
            raise AdministrationError("failed", str(error)) from error


def placed(command: Command) -> Command:
    """Give a command `--out`, `--master` and `--conf`, and as an argument the `setting` that they name."""

    def run(*args: Any, out: str, master: str, conf: tuple[str, ...], **options: Any) -> Any:
        settings = dict(_key_and_value(each) for each in conf)
        return command(*args, setting=Setting(out, master, settings), **options)

    _take_over(run, command)
    where = click.option("--out", required=True, metavar="DIR|URI", help="Where tables and report.html go.")
    master = click.option(
        "--master",
        default="local[*]",
        show_default=True,
        metavar="URL",
        help="The Spark master; by default this machine.",
    )
    conf = click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    return where(master(conf(run)))  # type: ignore[return-value]


def sourced(command: Command) -> Command:
    """Give a command `--from`, `--user` and `--password-file`, and as an argument the `source` that they name."""

    def run(
        target: Target, *args: Any, where: str | None, user: str | None, password_file: str | None, **options: Any
    ) -> Any:
        where = where or str(target.config.events_directory)
        return command(target, *args, source=Source(where, _access(user, password_file)), **options)

    _take_over(run, command)
    where = click.option(
        "--from",
        "where",
        metavar="DIR|URI",
        help="An event log, an export of one, or http://HOST:PORT; default: the log of the data directory.",
    )
    user = click.option(
        "--user", metavar="NAME", help="User to log in with at a URL; the password is in LEVERET_PASSWORD."
    )
    password = click.option("--password-file", metavar="FILE", help="A file with the password, in its place.")
    return where(user(password(run)))  # type: ignore[return-value]


def timed(command: Command) -> Command:
    """Give a command `--since` and `--until`, times in UTC where they do not say otherwise."""
    since = click.option("--since", callback=_time, metavar="TIME", help="Leave out what was before: 2026-11-21T19:30.")
    until = click.option("--until", callback=_time, metavar="TIME", help="Leave out what was then or later.")
    return since(until(command))


def _access(user: str | None, password_file: str | None) -> dict[str, str]:
    """The data source's options for logging in."""
    given = {"user": user, "passwordFile": password_file}
    if user is not None and password_file is None:
        given["password"] = os.environ.get("LEVERET_PASSWORD")
    return {name: value for name, value in given.items() if value is not None}


def _key_and_value(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--conf")
    return key, value


def _time(context: click.Context, parameter: click.Parameter, given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no time such as 2026-11-21T19:30") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _take_over(run: Callable[..., Any], command: Command) -> None:
    """Have a wrapper bear its command's name, and the options that click has noted there so far."""
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__dict__.update(command.__dict__)
