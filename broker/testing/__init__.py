"""Test requests: time, faults, snapshots, history and reset, with `[testing] enabled = true`.

Without it nothing of this package is imported. `control` puts it together; docs/testing-with-leveret.md is for users.
"""
