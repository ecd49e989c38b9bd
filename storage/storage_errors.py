"""What can go wrong with a store. Every message says what, where, and what to do about it."""

from __future__ import annotations


class StoreError(Exception):
    """Base of everything a store raises on purpose."""


class StoreLocked(StoreError):
    """Another process has the store open."""


class StoreIncompatible(StoreError):
    """The directory is not a store of ours, is of an unknown format, or belongs to other definitions."""


class StoreCorrupt(StoreError):
    """Bytes on disk are not what was written."""


class StoreIncomplete(StoreError):
    """Something that was on disk is missing: a journal, or a part of it, or the file of another moment is there.

    Nothing was changed. The loss has to be accepted, or the file brought back.
    """


class StoreFull(StoreError):
    """The disk is full. Nothing of the batch was written; the same batch may be committed again later."""


class StoreFailed(StoreError):
    """A commit failed and its outcome is unknown. The broker must stop without confirming anything."""


class StoreCutShort(StoreFailed):
    """A write failed, or took only a part, although the disk has room. Nothing was changed.

    That is what a disk looks like that was full for a moment, or one that is broken: try once more, then stop.
    """
