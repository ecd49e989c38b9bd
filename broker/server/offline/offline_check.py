"""`leveret check`: checks both stores of a stopped broker, and that they belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.server import directory_lock
from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, REPLACED
from storage import restored_files
from storage.messages import lmdb_environment
from storage.offline.verify_definitions import verify_definitions
from storage.offline.verify_messages import verify


def check(directory: Path) -> dict[str, Any]:
    """Return the contents of the stores in numbers, and `problems`, sentences for an operator. Changes nothing.

    Raises StoreLocked while a broker runs, and StoreError if a store cannot be read at all.
    """
    with directory_lock.for_command(directory):
        restored_files.finish(directory, REPLACED)
        return _checked(directory)


def problems_of(directory: Path) -> list[str]:
    """Return sentences about problems of stores that the caller has locked. Raises StoreError."""
    problems: list[str] = _checked(directory)["problems"]
    return problems


def _checked(directory: Path) -> dict[str, Any]:
    definitions = verify_definitions(directory / DEFINITIONS_FILE)
    messages = verify(directory / MESSAGES_DIRECTORY)
    identity = lmdb_environment.check_identity(directory / MESSAGES_DIRECTORY, None)
    problems = [*definitions.problems, *messages.problems]
    if identity.uuid != definitions.uuid:
        problems.append("the two stores belong to different brokers: put the files of one broker together again")
    if messages.set_aside:
        problems.append(f"{messages.set_aside} records of messages could not be read and were set aside")
    orphans = messages.queue_ids - definitions.queue_ids - definitions.delay_ids - definitions.tombstones
    if orphans:
        problems.append(f"the message store holds queues that no definition names: {sorted(orphans)}")
    return {
        "queues": len(definitions.queue_ids),
        "messages": messages.messages,
        "bytes": messages.bytes,
        "segments": messages.segments,
        "large_bodies": messages.bodies,
        "set_aside": messages.set_aside,
        "pending_deletions": messages.pending_deletions,
        "journaled_batches": messages.journaled,
        "problems": problems,
    }
