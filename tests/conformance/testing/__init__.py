"""Orders of tests: time, faults, snapshots, history, and a broker that is empty again."""
