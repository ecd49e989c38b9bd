"""Errors of the stores. Every message says what failed, where, and what to do about it."""

from __future__ import annotations


class StoreError(Exception):
    """Base class of the errors that a store raises."""


class StoreLocked(StoreError):
    """Another process has the store open."""


class StoreIncompatible(StoreError):
    """The directory is not a store of Leveret, has an unknown format, or belongs to other definitions."""


class StoreCorrupt(StoreError):
    """Bytes on disk are not what was written."""


class StoreIncomplete(StoreError):
    """Something that was on disk is missing: a journal or a part of it, or a file is from another moment.

    Nothing was changed. The file has to be brought back, or the loss accepted.
    """


class StoreFull(StoreError):
    """The disk is full. Nothing of the batch was written; the same batch may be committed again later."""


class StoreFailed(StoreError):
    """A commit failed and its outcome is unknown. The broker must stop without confirming anything."""


class StoreCutShort(StoreFailed):
    """A write failed or was partial although the disk has room. Nothing was changed.

    The disk was full for a moment, or is broken: try once more, then stop.
    """
