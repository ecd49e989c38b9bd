"""A boot's records of those before it: how far their log went, and whether those without one have left anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.config import Config
from broker.server.event_log import Events
from broker.settings_loader import load
from harness.brokers.recording_broker import events_in
from storage.batch import WriteBatch
from storage.journal.journal_file import NAME
from storage.messages.message_store import MessageStore

Boot = tuple[str, int]
"""The boot's record, and the last event at its only commit; 0: it commits nothing.

events: they are logged. killed: it ends before its log has begun. silent: a start without the event log.
"""
EVENTS, KILLED, SILENT = "events", "killed", "silent"


def run(config: Config, kind: str, last_event: int) -> None:
    """A boot that is not stopped in order."""
    directory = config.server.directory / "messages"
    with MessageStore.open(directory, recorded=kind != SILENT) as store:
        events = Events(config, store) if kind == EVENTS else None
        if last_event:
            store.commit(WriteBatch(1).seal(last_event))
        if events is not None:
            events.close()


@pytest.mark.parametrize(
    ("boots", "previous", "known", "idle"),
    [
        ([(EVENTS, 1)], 1, 1, True),
        ([(EVENTS, 0)], 1, 0, False),
        ([(EVENTS, 1), (EVENTS, 0)], 2, 0, True),
        ([(EVENTS, 1), (KILLED, 0)], 1, 1, True),
        ([(EVENTS, 1), (EVENTS, 0), (KILLED, 0), (KILLED, 0)], 2, 0, True),
        ([(EVENTS, 1), (KILLED, 5)], 1, 0, False),
        ([(EVENTS, 1), (SILENT, 0)], 1, 0, False),
        ([(EVENTS, 1), (SILENT, 0), (KILLED, 0)], 1, 0, False),
    ],
    ids=str,
)
def test_a_boot_says_what_those_before_it_have_left(
    tmp_path: Path, boots: list[Boot], previous: int, known: int, idle: bool
) -> None:
    (tmp_path / "config.toml").write_text("[events]\nenabled = true\n")
    config = load(tmp_path / "config.toml", {}, data_dir=str(tmp_path))
    for boot in (*boots, (EVENTS, 0)):
        run(config, *boot)
    said = json.loads(events_in(config.events_directory)[-1].detail or "")
    assert (said["previous_boot"], said["previous_known"], said["idle_since"]) == (previous, known, idle)


@pytest.mark.parametrize("accepted", [EVENTS, SILENT], ids=["by this boot", "by one without an event log"])
def test_a_loss_that_was_accepted_is_recorded_once(tmp_path: Path, accepted: str) -> None:
    """With the batches, by the first boot that logs events."""
    (tmp_path / "config.toml").write_text("[events]\nenabled = true\n")
    config = load(tmp_path / "config.toml", {}, data_dir=str(tmp_path))
    directory = config.server.directory / "messages"
    run(config, EVENTS, 1)
    with MessageStore.open(directory, journal_bytes=1 << 16) as store:
        for number in range(1, 4):
            store.commit(WriteBatch(number).seal(number))
    (directory / NAME).unlink()
    with MessageStore.open(directory, accept_loss=True) as store:
        if accepted == EVENTS:
            Events(config, store).close()
    for _ in range(2):
        run(config, EVENTS, 0)
    losses = [event.detail for event in events_in(config.events_directory) if event.kind == "loss"]
    assert [json.loads(loss or "") for loss in losses] == [{"first_batch": 2, "last_batch": 3}]
