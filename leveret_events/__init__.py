"""The format of event segments: the names of their files, and their bytes.

Leveret's event log is written by `storage.events` and read by `leveret_spark`, which runs on the nodes of a cluster
without the broker. Both import this package; it imports nothing but Python's own modules.
"""
