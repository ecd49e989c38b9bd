"""Targets: each does the same with pieces."""

from __future__ import annotations

import threading

import pytest

from storage.ship.targets.ship_target import PieceExists, ShipTarget

CLAIMS = 8


def test_pieces_are_put_listed_read_and_removed(target: ShipTarget) -> None:
    assert (target.chains(), target.names("chain")) == ([], [])
    target.begin("chain")
    target.begin("chain")
    for name in ("2.records", "1.base"):
        target.put("chain", name, (b"head", name.encode()))
    assert (target.chains(), target.names("chain")) == (["chain"], ["1.base", "2.records"])
    assert target.get("chain", "1.base") == b"head1.base"
    with pytest.raises(FileNotFoundError):
        target.get("chain", "3.records")
    for name in ("2.records", "1.base", "1.base"):
        target.remove("chain", name)
    # A server of S3 may list the folder of an object that is gone for a while.
    assert (set(target.chains()) <= {"chain"}, target.names("chain")) == (True, [])


def test_a_piece_is_not_written_over(target: ShipTarget) -> None:
    target.begin("chain")
    target.put("chain", "1.base", (b"once",))
    target.put("chain", "1.base", (b"on", b"ce"))  # an answer may be lost
    with pytest.raises(PieceExists, match="with other contents"):
        target.put("chain", "1.base", (b"more",))
    assert target.get("chain", "1.base") == b"once"
    assert target.names("chain") == ["1.base"]


def test_one_of_several_claims_is_granted(target: ShipTarget) -> None:
    """A fence is such a piece."""
    target.begin("claims")
    granted: list[bytes] = []
    together = threading.Barrier(CLAIMS)

    def claim(mine: bytes) -> None:
        together.wait()
        try:
            target.put("claims", "1", (mine,))
            granted.append(mine)
        except PieceExists:
            pass

    claiming = [threading.Thread(target=claim, args=(b"%d" % number,)) for number in range(CLAIMS)]
    for thread in claiming:
        thread.start()
    for thread in claiming:
        thread.join()
    assert granted == [target.get("claims", "1")]
    assert target.names("claims") == ["1"]
