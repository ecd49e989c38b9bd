"""A million messages at once: waiting in a queue, then drained; and out to a consumer that acknowledges nothing."""

from __future__ import annotations

from pathlib import Path

from bench.load import generator
from bench.load.measured_broker import (
    MemoryWatch,
    Target,
    Wanted,
    chosen,
    mib,
    own_broker,
    own_memory,
    report,
    target_of,
)

MESSAGES = 1_000_000
BODY_BYTES = 1024
HEADER_BYTES = 15
"""Bytes of a message beside its body: class, weight, size, flags and delivery mode."""


def fill(target: Target, queue: str, messages: int, size: int = BODY_BYTES) -> generator.Figures:
    """Declare a queue again and publish `messages` persistent messages to it, all of them confirmed."""
    client = generator.connect(target)
    generator.declare_fresh(client, queue)
    client.close()
    return generator.run(target, label="publish", key=queue, consumers=0, count=messages, size=size, window=5000)


def backlog(wanted: Wanted) -> None:
    """Publish a million, then drain them: memory, the first and the last tenth, and the file beside what is in it."""
    messages = wanted.sized(MESSAGES)
    if wanted.target is not None:
        _publish_and_drain(wanted.target, messages, None)
        return
    with own_broker() as broker:
        _publish_and_drain(target_of(broker), messages, broker.data_dir)
        broker.restart()  # a start is when the file is made smaller
        report("backlog, drained, after a restart", **_file_sizes(broker.data_dir, messages))


def _publish_and_drain(target: Target, messages: int, data: Path | None) -> None:
    idle = own_memory(target.pid)
    for phase in ("publish", "drain"):
        with MemoryWatch(target.pid) as watch:
            found = (
                fill(target, "bench.rows.deep_queue", messages)
                if phase == "publish"
                else generator.run(
                    target, label=phase, queue="bench.rows.deep_queue", producers=0, count=messages, prefetch=500
                )
            )
        report(
            f"backlog {phase}",
            messages=messages,
            idle_mib=mib(idle),
            rss_anon_mib_highest=mib(watch.highest),
            rss_anon_mib_throughout=watch.throughout(),
            last_tenth_of_first=round(found["last_tenth_per_s"] / found["first_tenth_per_s"], 2),
            **({} if data is None else _file_sizes(data, messages)),
            **found,
        )
    client = generator.connect(target)
    generator.delete(client, "bench.rows.deep_queue")
    client.close()


def _file_sizes(data: Path, messages: int) -> dict[str, float]:
    """The message store's file, and the blocks it really has, beside the bytes of `messages` messages."""
    status, full = (data / "messages" / "data.mdb").stat(), messages * (BODY_BYTES + HEADER_BYTES)
    return {
        "file_mib": mib(status.st_size),
        "file_blocks_mib": mib(status.st_blocks * 512),
        "all_messages_mib": mib(full),
        "file_of_all_messages": round(status.st_size / full, 2),
    }


def unacknowledged(wanted: Wanted) -> None:
    """A million messages out to one consumer without a prefetch limit, none acknowledged: memory while and after."""
    messages = wanted.sized(MESSAGES)
    with chosen(wanted) as target:
        fill(target, "bench.unacked", messages)
        before = own_memory(target.pid)
        with MemoryWatch(target.pid) as watch:
            found = generator.run(
                target, label="unacked", queue="bench.unacked", producers=0, count=messages, prefetch=0, hold=True
            )
        report(
            "unacked",
            messages=messages,
            before_mib=mib(before),
            rss_anon_mib_highest=mib(watch.highest),
            bytes_each=round((watch.highest - before) / messages),
            **found,
        )
        client = generator.connect(target)
        generator.delete(client, "bench.unacked")
        client.close()
