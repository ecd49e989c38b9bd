"""The note of a data directory that follows a second place: which one, and how far it was read.

It is written behind the stores' commits, so it may tell less than they have, never more: what is read again is not
applied again. While it is there and the follower was not promoted, no broker starts on the directory.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from storage import synced_files
from storage.storage_errors import StoreCorrupt, StoreError

NAME = "standby.json"


class Following(StoreError):
    """The directory is a standby's: no broker may start on it, and no command may change it."""


class FollowNote(msgspec.Struct, frozen=True):
    """Progress in following a place. `promoted`: the directory is a broker's since then.

    Of the last piece that was read: `chain`, `number`, and its digest in hexadecimal. Of the last change: boot,
    position, and time in milliseconds. `base_time`: when the base could be used.
    """

    place: str
    chain: str
    number: int
    digest: str
    boot: int
    position: int
    time: int
    base_time: int
    promoted: bool = False


def read_note(directory: Path) -> FollowNote | None:
    """Read the note of a data directory; None without one. Raises StoreCorrupt, OSError."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=FollowNote)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"{directory / NAME} cannot be read ({error}): follow into a new directory") from error


def write_note(directory: Path, note: FollowNote) -> None:
    """Write the note, synced. Raises OSError."""
    synced_files.replace(directory / NAME, msgspec.json.encode(note))


def refuse_following(directory: Path) -> None:
    """Raise Following if the directory is a standby's, and StoreCorrupt, OSError."""
    note = read_note(directory)
    if note is not None and not note.promoted:
        raise Following(
            f"{directory} follows {note.place}: `leveret follow` goes on with it, `leveret inspect` shows it, "
            "`leveret promote` makes it a broker's"
        )
