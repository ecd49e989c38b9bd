"""Features of a store that not every release knows: named in it when first used, and refused where unknown.

A format version says how bytes are read. A feature says that records have a meaning which a release without it would
overlook, and lose: delivery counts, due times, messages only in the journal. Stores without names are of releases
that knew the first four.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from storage.definitions.definition_rows import SetMetadata

STREAMS = "streams"
QUORUM_QUEUES = "quorum queues"
PRIORITIES = "priorities"
DELAYED_MESSAGES = "delayed messages"
JOURNAL = "journal"
"""In its first format, which is read once."""
CHAINED_JOURNAL = "chained journal"
KNOWN = frozenset({STREAMS, QUORUM_QUEUES, PRIORITIES, DELAYED_MESSAGES, JOURNAL, CHAINED_JOURNAL})

_KEY = "feature."


def uses(feature: str) -> SetMetadata:
    """Return the change that names a feature; to be made with its first use. Made again, it changes nothing."""
    assert feature in KNOWN, f"{feature} has to be known where it is used"
    return SetMetadata(_KEY + feature, b"")


def used(feature: str, metadata: Container[str]) -> bool:
    """Return True if a store's metadata names the feature."""
    return _KEY + feature in metadata


def unknown(metadata: Iterable[str]) -> list[str]:
    """Return the features among the keys of a store's metadata that this release does not know."""
    return sorted(
        name.removeprefix(_KEY) for name in metadata if name.startswith(_KEY) and name.removeprefix(_KEY) not in KNOWN
    )
