"""Plants the mistake named by PLANTED; sets the clock where JUMPING is set; has rare work done where EAGER is set;
marks changes in the file named by MARKED.

Stores are compacted at each start, their free pages made holes at each look at the disk; lone changes of
definitions are written by the event loop, however slow the disk is, and SQLite's log is moved into its file often.

Python imports this at its start when its directory is in PYTHONPATH.
"""

from __future__ import annotations

import os
from importlib import import_module

if "JUMPING" in os.environ:
    from tests.planted.jumps import follow_signals

    follow_signals()


def change_program() -> None:
    """Do what EAGER, MARKED and PLANTED say."""
    if "EAGER" in os.environ:
        from broker.server import resource_alarms
        from broker.server.commits import lone_changes
        from storage.definitions import definition_store
        from storage.messages import lmdb_environment

        lmdb_environment.COMPACT_FILE_BYTES, lmdb_environment.COMPACT_RATIO = 0, 0
        resource_alarms.SHRINK_SECONDS, resource_alarms.REUSABLE_BYTES_KEPT = 0.0, 0
        lone_changes.QUICK_WRITES_MIN, definition_store.CHECKPOINT_COMMITS = 0, 3
        definition_store.LOG_BYTES = 1 << 16
    if "MARKED" in os.environ:
        from tests.durability.shipped_states.marks import mark_changes

        mark_changes(os.environ["MARKED"])
    if "PLANTED" in os.environ:
        from tests.planted.planted_catalogue import plant_here

        plant_here(os.environ["PLANTED"])


if "CHANGED_LATER" in os.environ:  # harness/forked: copies of this process are changed, each by its own environment
    import_module("tests.planted.planted_catalogue")
else:
    change_program()
