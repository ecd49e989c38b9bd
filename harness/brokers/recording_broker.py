"""A broker that records events, and its log read back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from leveret_events.segment_names import parse_name
from leveret_spark.events.event_columns import Event, read_segment


def recording_broker(directory: Path, settings: str = "") -> BrokerProcess:
    """A broker that records events, with further lines of the section [events]."""
    config = directory / "config.toml"
    config.write_text(f"[events]\nenabled = true\n{settings}")
    return BrokerProcess(directory / "data", "--config", str(config))


def events_in(directory: Path) -> list[Event]:
    """Every event in the sealed segments of a directory, oldest first."""
    names = sorted(name for path in directory.iterdir() if (name := parse_name(path.name)) is not None)
    files = {parse_name(path.name): path for path in directory.iterdir()}
    return [event for name in names for event in read_segment(name, files[name].read_bytes())]


def events_of(broker: BrokerProcess) -> list[Event]:
    """Every event that a broker's log holds."""
    return events_in(broker.data_dir / "events")


def kinds(events: Iterable[Event]) -> list[str]:
    """Return the kinds of events, in order."""
    return [event.kind for event in events]
