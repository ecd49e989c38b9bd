"""docs/storage-format.md tells the truth, and stores written earlier can still be opened."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from harness.project import ROOT
from storage.batch import LaneCounters
from storage.messages import keys
from storage.messages.keys import SEGMENT, SETTLED, place_key
from storage.messages.message_segments import MessageSegment, pack
from storage.messages.message_store import MessageStore
from storage.offline.verify_messages import KINDS, verify
from tests.unit.storage.writing import bodies, clear_away, record

PAGE = ROOT / "docs" / "storage-format.md"
STORES = Path(__file__).with_name("stores")


def test_the_example_is_what_is_written() -> None:
    segment_text, bitmap_text = re.findall(r"```\n(key.*?)```", PAGE.read_text(), re.DOTALL)
    position = 1 << 40 | 1
    ((first, value),) = pack([(position, (record(b"hello"), 0)), (position + 1, (record(b"!"), 1767225600000))])
    segment = MessageSegment(value)
    settled = segment.settled(None)
    settled.add(0, segment.weight(0)[0])
    assert hexadecimal(segment_text) == (place_key(SEGMENT, 1, 0, first), value)
    assert hexadecimal(bitmap_text) == (place_key(SETTLED, 1, 0, first), settled.encode())


def hexadecimal(text: str) -> tuple[bytes, bytes]:
    key, value = text.removeprefix("key").split("value")
    return bytes.fromhex(key), bytes.fromhex(value)


def test_every_kind_of_record_is_described() -> None:
    described = set(
        re.findall(
            r"^\| `(\w)`(?: queue| body| boot)?(?: lane)?(?: first| position)? \|", PAGE.read_text(), re.MULTILINE
        )
    )
    known = {value.decode() for name, value in vars(keys).items() if name.isupper() and isinstance(value, bytes)}
    assert described == known == {kind.decode() for kind in KINDS}


def test_a_store_of_format_1_can_be_opened(tmp_path: Path) -> None:
    """Written by the first release: a purge with survivors and a deletion in progress, a shared body, two lanes."""
    path = tmp_path / "messages"
    shutil.copytree(STORES / "1", path)
    assert verify(path).problems == []
    with MessageStore.open(path, store_uuid=bytes(range(16))) as store:
        assert store.boot == 2
        assert bodies(store, 1) == [b"message 3", b"message 7", b"after the purge"]
        assert bodies(store, 1, lane=5) == [b"urgent"]
        assert bodies(store, 2) == [b"shared"]
        assert store.lanes()[1][0].snapshot() == LaneCounters(3, 33, 1 << 40 | 8, 0)
        assert store.pending_deletions() == {3}
        clear_away(store)
        assert store.pending_deletions() == set()
        assert bodies(store, 1) == [b"message 3", b"message 7", b"after the purge"]
    assert verify(path).problems == []
