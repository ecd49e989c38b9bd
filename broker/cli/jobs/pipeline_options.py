"""Options of jobs: what they run on, where events come from, of which time, and where results go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import click

from broker.admin.commands.node_admin import SealEvents
from broker.admin.protocol import AdministrationError
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.target_broker import Target

Command = TypeVar("Command", bound=Callable[..., Any])


UNSEALED = (
    "the newest events, up to events.segment_seconds of a running broker, are not in this: their segment is not sealed"
)


class JobSource(NamedTuple):
    """Source of events: a directory or a URI, and the data source's options for it."""

    where: str
    options: dict[str, str]

    def parts(self) -> Any:
        """The events, in parts. Raises OSError for a directory that is not there, AdministrationError for the rest."""
        parts, targets = map(pipeline_module, ("event_parts", "file_target"))
        try:
            found = parts.parts_of(self.where, self.options)
            if parts.has_unsealed(self.where):
                click.echo(UNSEALED, err=True)
            return found
        except (targets.ManifestError, ValueError) as error:
            raise AdministrationError("failed", str(error)) from error


class JobSetting(NamedTuple):
    """Spark settings of a job, and its output directory."""

    out: str
    engine: str
    master: str | None
    settings: dict[str, str]

    def by_spark(self, option: str) -> JobSetting:
        """Return this with Spark as the engine, which an option needs. Raises UsageError."""
        if self.engine == "local":
            raise click.UsageError(f"{option} is for Spark: leave out --engine local")
        return self._replace(engine="spark")

    @contextmanager
    def reading(self, job: str, source: JobSource) -> Iterator[tuple[Any, Any, Any]]:
        """An engine, the events and the place of results; the report is written from those when the job has ended.

        Raises AdministrationError, and OSError for a source that is not there.
        """
        engines = pipeline_module("jobs.engines")
        parts = source.parts()
        name = engines.chosen(self.engine, parts, self.master)
        with _failures(), engines.engine(name, job, master=self.master, settings=self.settings) as read:
            with self._place() as place:
                yield read, parts, place

    @contextmanager
    def spark(self, job: str) -> Iterator[tuple[Any, Any]]:
        """A session of Spark and the place of results, with the report written from those."""
        engines = pipeline_module("jobs.engines")
        progress = sys.stderr.isatty()
        with (
            _failures(),
            engines.spark_for(job, master=self.master, settings=self.settings, progress=progress) as spark,
        ):
            with self._place() as place:
                yield spark, place

    @contextmanager
    def _place(self) -> Iterator[Any]:
        targets, page = map(pipeline_module, ("file_target", "report.page"))
        place = targets.Target(self.out)
        yield place
        page.write_report(place)


@contextmanager
def _failures() -> Iterator[None]:
    engines, results = map(pipeline_module, ("jobs.engines", "jobs.job_results"))
    try:
        yield
    except (engines.JobError, results.ResultsError) as error:
        raise AdministrationError("failed", str(error)) from error


def placed(command: Command) -> Command:
    """Give a command `--out`, `--master` and `--conf`, and as an argument the `setting` that they name."""

    def run(
        *args: Any, out: str, master: str | None, conf: tuple[str, ...], engine: str = "spark", **options: Any
    ) -> Any:
        settings = dict(_key_and_value(each) for each in conf)
        return command(*args, setting=JobSetting(out, engine, master, settings), **options)

    _take_over(run, command)
    where = click.option("--out", required=True, metavar="DIR|URI", help="Where tables and report.html go.")
    master = click.option(
        "--master",
        metavar="URL",
        help="The Spark master, or sc://HOST:15002 for Spark Connect; by default this machine.",
    )
    conf = click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    return where(master(conf(run)))  # type: ignore[return-value]


def sourced(command: Command) -> Command:
    """Give a command `--from` and the options for a URL, and as an argument the `source` that they name."""

    def run(
        target: Target,
        *args: Any,
        where: str | None,
        user: str | None,
        password_file: str | None,
        tls_ca_file: str | None,
        seal: bool,
        **options: Any,
    ) -> Any:
        if seal:
            target.ask(SealEvents())
        where = where or str(target.config.events_directory)
        return command(target, *args, source=JobSource(where, _access(user, password_file, tls_ca_file)), **options)

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
    trusted = click.option("--tls-ca-file", metavar="FILE", help="Trusted CA certificates, PEM; default: the system's.")
    engine = click.option(
        "--engine",
        type=click.Choice(["auto", "spark", "local"]),
        default="auto",
        show_default=True,
        help="What reads the events; auto: Spark with --master and for more than 30 million events.",
    )
    seal = click.option("--seal", is_flag=True, help="Have the running broker seal its newest events first.")
    return where(seal(user(password(trusted(engine(run))))))  # type: ignore[return-value]


def timed(command: Command) -> Command:
    """Give a command `--since` and `--until`, times in UTC where they do not say otherwise."""
    since = click.option("--since", callback=_time, metavar="TIME", help="Leave out what was before: 2026-11-21T19:30.")
    until = click.option("--until", callback=_time, metavar="TIME", help="Leave out what was then or later.")
    return since(until(command))


def _access(user: str | None, password_file: str | None, tls_ca_file: str | None) -> dict[str, str]:
    """The data source's options for logging in."""
    given = {"user": user, "passwordFile": password_file, "tlsCaFile": tls_ca_file}
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
