"""Whose crashes can be explored, by the name that a record bears."""

from __future__ import annotations

from tests.durability.crash.explorer import Subject
from tests.durability.crash.recording import check_broker, check_store
from tests.durability.crash.recording.recorded import BROKER, STORE

SUBJECTS: dict[str, Subject] = {BROKER: check_broker.SUBJECT, STORE: check_store.SUBJECT}
