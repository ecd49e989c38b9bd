"""Orders of tests: time, faults, snapshots, history and an empty broker, where `[testing] enabled = true` says so.

Nothing of this is imported otherwise. `control` puts it together; docs/testing-with-leveret.md is for its users.
"""
