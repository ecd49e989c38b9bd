"""Plants the mistake named by PLANTED; sets the clock where JUMPING is set; has stores compacted at each start, and
their free pages made holes at each look at the disk, where SHRINKING is set.

Python imports this at its start when its directory is in PYTHONPATH.
"""

from __future__ import annotations

import os

if "JUMPING" in os.environ:
    from tests.planted.jumps import follow_signals

    follow_signals()

if "SHRINKING" in os.environ:
    from broker.server import resource_alarms
    from storage.messages import lmdb_environment

    lmdb_environment.COMPACT_FILE_BYTES, lmdb_environment.COMPACT_RATIO = 0, 0
    resource_alarms.SHRINK_SECONDS, resource_alarms.REUSABLE_BYTES_KEPT = 0.0, 0

if "PLANTED" in os.environ:
    from tests.planted.planted_catalogue import plant_here

    plant_here(os.environ["PLANTED"])
