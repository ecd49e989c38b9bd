"""The model of a disk: what may be left of it."""

from __future__ import annotations

import random

from leveret.testing.power.disk_states import PAGE, SECTOR, Chance, Content, File


def test_what_was_synced_is_there_and_the_rest_may_be() -> None:
    file = File()
    file.write((0, b"aaaa"), certain=False)
    file.sync()
    file.write((0, b"bb"), certain=False)
    file.write((2, b"cc"), certain=True)
    file.write((4, None), certain=False)
    assert file.uncertain == 2
    assert bytes(file.after(lambda write: ()).data) == b"aacc"
    assert bytes(file.after(lambda write: (write,)).data) == b"bbcc"


def test_tearing_cuts_at_sectors_only() -> None:
    data = bytes(range(256)) * 8
    whole = File()
    whole.write((100, data), certain=True)
    expected = bytes(whole.certain.data)
    for seed in range(200):
        file = File()
        file.write((0, bytes(4096)), certain=True)
        file.write((100, data), certain=False)
        left = bytes(file.after(Chance("some, torn", random.Random(seed), 1).write).data)
        for at in range(0, len(expected), SECTOR):
            sector = left[at : at + SECTOR]
            assert sector.startswith(expected[at : at + SECTOR]) or not any(sector)


def test_equal_bytes_have_equal_digests() -> None:
    """However they came to be there."""
    choose = random.Random(1)
    for _ in range(100):
        content = Content()
        for _ in range(10):
            at = choose.randrange(8 * PAGE)
            written = bytes([choose.randrange(256)]) * choose.randrange(2 * PAGE)
            content.apply((at, written if choose.random() < 0.8 else None))
        same = Content()
        same.apply((0, bytes(content.data)))
        assert (same.data, same.digest) == (content.data, content.digest)
        same.apply((choose.randrange(len(same.data) + 1), b"\x07" * PAGE))
        assert same.digest != content.digest
