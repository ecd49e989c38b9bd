"""Whose crashes can be explored, by the name that a record bears."""

from __future__ import annotations

from tests.crash import check_broker, check_store
from tests.crash.explorer import Subject
from tests.crash.recorded import BROKER, STORE

SUBJECTS: dict[str, Subject] = {BROKER: check_broker.SUBJECT, STORE: check_store.SUBJECT}
