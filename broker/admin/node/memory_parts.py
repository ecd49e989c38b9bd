"""Resident memory by use: connections, queues, the message store, code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import trio

from broker.admin.administration import Administration
from broker.admin.node import process_facts
from broker.admin.node.process_facts import container_bytes

STORE_FILE = "data.mdb"
JOURNAL = Path("messages", "journal")
"""The journal's file in the data directory."""


async def memory_parts(administration: Administration) -> dict[str, Any]:
    """Return bytes by use; together they are the resident memory.

    `msg_index` are pages of the message store that are mapped, `code` those of other files, `allocated_unused` is what
    was freed and is kept for what comes next, `other_system` the rest: Python's objects, with messages among them.
    """
    registry = administration.registry
    connections = registry.connections
    readers = registry.held_bytes + sum(connection.incomplete_bytes for connection in connections)
    writers = sum(connection.output.pending for connection in connections)
    resident = process_facts.resident_bytes() or administration.status()["memory"]["used_bytes"]
    store, code = await trio.to_thread.run_sync(_mapped)
    unused = _freed_bytes()
    parts = {
        "connection_readers": readers,
        "connection_writers": writers,
        "msg_index": store,
        "code": code,
        "allocated_unused": unused,
    }
    other = max(0, resident - sum(parts.values()))
    allocated = max(0, resident - store - code)
    total = {"erlang": max(0, allocated - unused), "rss": resident, "allocated": allocated}
    return {**parts, "other_system": other, "strategy": "rss", "total": total}


async def memory_uses(administration: Administration) -> dict[str, Any]:
    """Return the parts, and memory outside the process: `journal`, the bytes of the journal's file, which the kernel
    caches, and `container`, the memory that `docker stats` shows; None if there is no control group."""
    try:
        journal = (Path(administration.status()["data_directory"]) / JOURNAL).stat().st_size
    except OSError:
        journal = 0
    return {**await memory_parts(administration), "outside": {"journal": journal, "container": container_bytes()}}


def parts_of_4(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts with those that only RabbitMQ 4 tells apart: here they are in `other_system`."""
    return {**dict.fromkeys(_PARTS_OF_4, 0), **parts}


_PARTS_OF_4 = (
    *("atom", "binary", "connection_channels", "connection_other", "metadata_store", "metadata_store_ets", "metrics"),
    *("mgmt_db", "mnesia", "other_ets", "other_proc", "plugins", "queue_procs", "quorum_ets", "quorum_queue_dlx_procs"),
    *("quorum_queue_procs", "reserved_unallocated", "stream_queue_coordinator_procs", "stream_queue_procs"),
    "stream_queue_replica_reader_procs",
)


def relative(row: dict[str, Any]) -> dict[str, int]:
    """Return the same in per cent of the resident memory, at least 1 for every use."""
    whole = row["total"]["rss"] or 1
    parts = {name: value for name, value in row.items() if isinstance(value, int)}
    return {"total": 100} | {name: max(1, round(100 * part / whole)) if part else 0 for name, part in parts.items()}


def _mapped() -> tuple[int, int]:
    """Return resident bytes of the message store's file, and of all other mapped files."""
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return 0, 0
    store = code = 0
    path = ""
    for line in lines:
        words = line.split(maxsplit=5)
        if not words[0].endswith(":"):
            path = words[5] if len(words) > 5 else ""
        elif words[0] == "Rss:" and path.startswith("/"):
            if path.endswith(STORE_FILE):
                store += int(words[1]) * 1024
            else:
                code += int(words[1]) * 1024
    return store, code


class _MallInfo(ctypes.Structure):
    """The answer of glibc's mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def _freed_bytes() -> int:
    """Return the freed bytes that the C library keeps; 0 if it does not say."""
    ask = _mallinfo()
    return 0 if ask is None else int(ask().fordblks)


@cache
def _mallinfo() -> Callable[[], _MallInfo] | None:
    """Return the C library's function, looked up once: each object for the library is a reference cycle."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is not None:
        ask.restype = _MallInfo
    return ask
