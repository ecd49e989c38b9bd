"""The report of `leveret restore --from`: what is there, what is not, and what comes again."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from broker.server.offline.restore_shipped import RestoredShipped
from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY
from broker.wire.amqp_errors import DecodeError
from broker.wire.properties import decode_properties
from storage.definitions.definition_rows import Definitions
from storage.offline.offline_reader import StoppedStore, definitions_of, header_of
from storage.offline.store_comparison import MissingMessage, StoreDifference, compare
from storage.ship.shown_moment import moment
from storage.storage_errors import StoreError

NAMED_MAX = 100
"""Missing messages that are named, one by one."""


class Comparison(NamedTuple):
    """The difference from a directory of the old timeline. `problem`: why there is none, if there is none."""

    directory: Path
    missing: int = 0
    named: list[dict[str, Any]] = []
    again: int = 0
    problem: str = ""


def compare_with(old: Path, restored: Path) -> Comparison:
    """Compare the old data directory with the restored one. Neither is changed."""
    try:
        with StoppedStore(old / MESSAGES_DIRECTORY) as before, StoppedStore(restored / MESSAGES_DIRECTORY) as now:
            names = _names(definitions_of(old / DEFINITIONS_FILE))
            known = {*names, *_names(definitions_of(restored / DEFINITIONS_FILE))}
            return _comparison(old, compare(before, now, known.__contains__, NAMED_MAX), names)
    except (StoreError, OSError) as error:
        return Comparison(old, problem=str(error))


def _comparison(old: Path, found: StoreDifference, names: dict[int, tuple[str, str]]) -> Comparison:
    named = list[dict[str, Any]]()
    for each in found.named:
        vhost, queue = names.get(each.queue_id, ("", ""))
        named.append({"vhost": vhost, "queue": queue, "position": each.position, "message_id": _message_id(each)})
    return Comparison(old, found.missing, named, found.again)


def _names(found: Definitions) -> dict[int, tuple[str, str]]:
    """Return virtual host and name of what has messages, by id; exchanges with delayed messages too."""
    queues = ((row.id, (row.vhost, row.name)) for row in found.queues)
    return dict(chain(queues, ((row.queue_id, (row.vhost, row.name)) for row in found.exchanges if row.queue_id)))


def _message_id(missing: MissingMessage) -> str | None:
    if missing.message is None:
        return None
    try:
        return decode_properties(header_of(missing.message)).message_id
    except DecodeError:
        return None


def report_of(found: RestoredShipped, directory: Path, seconds: float, compared: Comparison | None) -> dict[str, Any]:
    """Return the report as JSON has it. `seconds`: from the moment that was restored to the restore."""
    restored, reached = found
    report: dict[str, Any] = {
        "data_directory": str(directory.absolute()),
        "replaced": None if restored.replaced is None else str(restored.replaced.absolute()),
        "boot": restored.boot,
        "moment": moment(reached.time),
        "position": f"{reached.boot}:{reached.position}",
        "records": reached.records,
        "problems": reached.problems,
        "messages": restored.messages,
        "queues": [each._asdict() for each in restored.queues],
        "seconds_not_there_max": round(seconds, 3),
        "compared": None,
    }
    if compared is not None:
        report["compared"] = {
            "directory": str(compared.directory.absolute()),
            "problem": compared.problem,
            "missing_messages": compared.missing,
            "missing": compared.named,
            "messages_again": compared.again,
        }
    return report
