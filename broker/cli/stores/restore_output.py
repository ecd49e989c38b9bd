"""The report of `leveret restore --from`, in sentences and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from broker.cli.table_output import aligned, counted, done, text

SHOWN = 20
"""Queues, and missing messages, that are listed."""


def show_report(report: Mapping[str, Any]) -> None:
    """Print what was restored up to which moment, what is not there, and what comes again."""
    held = [queue for queue in report["queues"] if queue["messages"]]
    _list([[each["vhost"], each["name"], f"{each['messages']:,}"] for each in held], "queue", len(held))
    records = counted(report["records"], "record")
    done("as of {}, position {}, {} behind the base", report["moment"], report["position"], records)
    compared = report["compared"]
    if compared is None or compared["problem"]:
        _tell_what_may_be_missing(report["seconds_not_there_max"], compared)
    else:
        _tell_difference(compared)
    for problem in report["problems"]:
        done("{}", problem)


def _tell_what_may_be_missing(seconds: float, compared: Mapping[str, Any] | None) -> None:
    if compared is not None:
        done("not compared: {}", compared["problem"])
    since = f"in the {seconds:,.1f} s from then to now"
    done("messages that were confirmed after that are not there: at most those of a broker that ran {}", since)
    done("messages that were acknowledged after that come again; --compare OLD_DIRECTORY counts both")


def _tell_difference(compared: Mapping[str, Any]) -> None:
    missing, again = compared["missing_messages"], compared["messages_again"]
    if missing:
        done("{} of {}, confirmed after that, not there:", counted(missing, "message"), compared["directory"])
    else:
        done("nothing that {} has is missing", compared["directory"])
    rows = [
        [each["vhost"], each["queue"], f"position {each['position']}", each["message_id"] or ""]
        for each in compared["missing"]
    ]
    _list(rows, "message", missing)
    comes = "comes" if again == 1 else "come"
    done("{}, acknowledged or removed after that, {} again", counted(again, "message"), comes)


def _list(rows: Sequence[Sequence[str]], noun: str, total: int) -> None:
    for line in aligned([[text(cell) for cell in row] for row in rows[:SHOWN]]):
        click.echo(f"  {line}")
    if total > min(len(rows), SHOWN):
        done("  and {} more (--json)", counted(total - min(len(rows), SHOWN), noun))
