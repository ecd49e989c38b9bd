"""Scheduling on the event loop: turns, timers, background work, futures, alarms. No I/O."""
