"""The gauges of a disk that hangs, as text: they are also answered while nothing can be loaded from that disk."""

from __future__ import annotations

from collections.abc import Mapping


def disk_metrics(hangs: str, pending_seconds: Mapping[str, float]) -> str:
    """Return the metrics. `hangs` says which write the disk does not answer, or nothing; `pending_seconds` are those of
    the writes under way, by file."""
    waits = [f'leveret_sync_pending_seconds{{file="{file}"}} {seconds}' for file, seconds in pending_seconds.items()]
    lines = [
        "# HELP leveret_disk_hangs 1 while a write has been under way for disk.hang_seconds",
        "# TYPE leveret_disk_hangs gauge",
        f"leveret_disk_hangs {float(bool(hangs))}",
        "# HELP leveret_sync_pending_seconds Time of the write that is under way",
        "# TYPE leveret_sync_pending_seconds gauge",
        *waits,
    ]
    return "".join(f"{line}\n" for line in lines)
