"""Shipping and what is restored from it, on real files: each moment, each prefix, and each damaged piece."""

from __future__ import annotations

import hashlib
import random
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.waiting import eventually
from storage.batch import TRANSIENT_QUEUE
from storage.ship import retention
from storage.ship.restored_moment import Moment
from storage.ship.sealed_piece import StoreName, unseal
from storage.ship.shipped_chains import BaseEnd, ShippedBase, read_bases
from storage.ship.targets.directory_target import DirectoryTarget
from storage.storage_errors import StoreError
from tests.unit.shipping.shipped_life import RULES, SHIP_SECONDS, Contents, ShippedLife, restored

STEPS = 60


def lived(data: Path, away: Path, seed: int, steps: int = STEPS) -> tuple[int, dict[int, Contents]]:
    """Ship a random life. Returns its boot, and the contents at each position."""
    chance = random.Random(seed)
    with ShippedLife(data, DirectoryTarget(away)) as life:
        life.declare()  # before the base, as a rule
        for step in range(steps):
            life.some_step(chance)
            if step == steps // 3:
                life.await_shipped()
        life.await_shipped()
        return life.messages.boot, life.held


def pieces(away: Path) -> list[Path]:
    """The pieces of the only chain, in order."""
    (chain,) = away.iterdir()
    return sorted(chain.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_each_position_is_restored_as_it_was(data: Path, away: Path, tmp_path: Path, seed: int) -> None:
    boot, held = lived(data, away, seed)
    target = DirectoryTarget(away)
    first = read_bases(target).found[0].contents.position - 1
    usable = [position for position in held if position >= first]
    assert len(usable) > STEPS // 2
    for position in [usable[0], usable[-1], *random.Random(seed).sample(usable, 6)]:
        moment, found = restored(target, Moment(boot=boot, position=position), tmp_path / f"at-{position}")
        assert (moment.position, moment.problems) == (position, [])
        assert found == held[position], f"seed {seed}, position {position}"
        shutil.rmtree(tmp_path / f"at-{position}", ignore_errors=True)


@pytest.mark.slow
def test_each_prefix_of_the_pieces_is_a_moment(data: Path, away: Path, tmp_path: Path) -> None:
    """The last record shipped before the machine was lost is the state that comes back."""
    _boot, held = lived(data, away, 11, 30)
    every, target = pieces(away), DirectoryTarget(away)
    base = read_bases(target).found[0]
    for last in reversed(every):
        moment, found = restored(target, Moment(), tmp_path / last.name)
        assert not moment.problems
        assert found == held[moment.position]
        last.unlink()
        if last.name == f"{base.end:012d}.base":
            break
    with pytest.raises(StoreError, match="no whole base at all"):
        restored(target, Moment(), tmp_path / "nothing")


def test_a_batch_of_transient_queues_alone_ends_no_restore(data: Path, away: Path, tmp_path: Path) -> None:
    """The first of a boot goes to LMDB at once, whatever is in it."""
    with ShippedLife(data, DirectoryTarget(away)) as life:
        life.await_shipped()
        life.writer.put(TRANSIENT_QUEUE + 1, b"transient")
        life.commit()
        life.publish(life.declare(), b"behind it")
        life.await_shipped()
        held = life.held
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert (moment.position, moment.problems) == (max(held), [])
    assert found == held[moment.position]


def cut(piece: Path) -> None:
    piece.write_bytes(piece.read_bytes()[:-1])


def flip(piece: Path) -> None:
    data = bytearray(piece.read_bytes())
    data[-1] ^= 1
    piece.write_bytes(data)


def flip_head(piece: Path) -> None:
    data = bytearray(piece.read_bytes())
    data[50] ^= 1
    piece.write_bytes(data)


def swap(piece: Path) -> None:
    """Put another piece in its place."""
    other = next(path for path in sorted(piece.parent.iterdir()) if path != piece and path.suffix == piece.suffix)
    piece.write_bytes(other.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("harm", [cut, flip, flip_head, swap, Path.unlink])
def test_a_harmed_piece_ends_a_restore_with_the_record_before(
    data: Path, away: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    _boot, held = lived(data, away, 5)
    records = [piece for piece in pieces(away) if piece.suffix == ".records"]
    harmed = records[-3]
    harm(harmed)
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert max(held) > moment.position
    assert found == held[moment.position]
    (problem,) = moment.problems
    assert str(int(harmed.stem)) in problem
    assert "restored up to the last whole record before" in problem


def test_a_harmed_base_is_left_for_an_older_one(data: Path, away: Path, tmp_path: Path) -> None:
    _boot, held = lived(data, away, 6, 10)
    with ShippedLife(data, DirectoryTarget(away)) as life:
        life.await_shipped()
    later = max(away.iterdir())
    flip(next(path for path in later.iterdir() if path.suffix == ".messages"))
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert found == held[max(held)]
    assert "the base of" in moment.problems[0]


def test_a_chain_without_the_end_of_its_base_is_not_passed_over_silently(
    data: Path, away: Path, tmp_path: Path
) -> None:
    _boot, held = lived(data, away, 6, 10)
    with ShippedLife(data, DirectoryTarget(away)) as life:
        life.await_shipped()
        life.publish(life.declare(), b"behind the base")
        life.await_shipped()
    later = max(away.iterdir())
    (end,) = later.glob("*.base")
    end.unlink()
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert found == held[max(held)]
    (problem,) = moment.problems
    assert problem == f"piece {int(end.stem)} of {later.name} is missing: nothing of this boot can be used"


def test_a_position_that_was_not_shipped_is_named(data: Path, away: Path, tmp_path: Path) -> None:
    boot, held = lived(data, away, 1, 3)
    last = max(held)
    moment, found = restored(DirectoryTarget(away), Moment(boot=boot, position=last + 1), tmp_path / "found")
    assert found == held[last]
    assert moment.problems == [f"nothing of boot {boot} behind position {last} was shipped"]


def test_a_time_before_the_first_base_is_refused(data: Path, away: Path, tmp_path: Path) -> None:
    lived(data, away, 1, 3)
    with pytest.raises(StoreError, match="has no base for this moment: the oldest is of 20"):
        restored(DirectoryTarget(away), Moment(time=1), tmp_path / "found")


def test_pieces_of_the_first_version_are_read(data: Path, away: Path, tmp_path: Path) -> None:
    _boot, held = lived(data, away, 8, 10)
    (chain,) = away.iterdir()
    previous = hashlib.sha256(chain.name.encode()).digest()
    for path in [path for path in pieces(away) if path.suffix != ".mark"]:
        previous = rewrite_as_first_version(path, previous)
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert (moment.position, moment.problems) == (max(held), [])
    assert found == held[moment.position]
    flip(pieces(away)[-1])
    moment, _found = restored(DirectoryTarget(away), Moment(), tmp_path / "before")
    assert "the checksum of its payload is wrong" in moment.problems[0]


def rewrite_as_first_version(path: Path, previous: bytes) -> bytes:
    """Write a piece behind the one with a digest, and return its own digest."""
    piece, payload, _digest = unseal(path.read_bytes(), path.name)
    head = struct.pack(
        ">4sBB16sQQQQQI32s32s",
        *(b"LvSP", 1, piece.kind, *piece.store, piece.number, piece.first, piece.time, len(payload)),
        *(previous, hashlib.sha256(payload).digest()),
    )
    head += zlib.crc32(head).to_bytes(4)
    path.write_bytes(head + payload)
    return hashlib.sha256(head).digest()


# A target that does not answer


class BrokenTarget:
    """Fails at chosen calls: before the piece is there, or with it in place."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing: Iterator[str] = iter(())
        put = DirectoryTarget.put

        def put_or_fail(target: DirectoryTarget, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
            how = next(self.failing, "")
            if how == "partly":
                (directory / chain / f"{name}.new").write_bytes(parts[-1][:7])
            if how == "after":
                put(target, chain, name, parts)
            if how:
                raise OSError(5, f"the target fails {how}")
            put(target, chain, name, parts)

        monkeypatch.setattr(DirectoryTarget, "put", put_or_fail)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("how", ["before", "partly", "after"])
def test_a_failed_write_is_made_up_for(
    data: Path, away: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, how: str
) -> None:
    monkeypatch.setattr("broker.server.shipping.ship_thread.RETRY_SECONDS", 0.01)
    broken = BrokenTarget(away, monkeypatch)
    broken.failing = iter([""] * at + [how])
    _boot, held = lived(data, away, at, 12)
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert (moment.position, moment.problems) == (max(held), [])
    assert found == held[moment.position]


def test_too_much_for_a_target_that_is_gone_is_dropped_and_then_in_a_new_base(
    data: Path, away: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.server.shipping.ship_thread.RETRY_SECONDS", 0.01)
    target = DirectoryTarget(away)
    with ShippedLife(data, target, buffer_bytes=200_000) as life:
        queue_id = life.declare()
        life.await_shipped()
        hidden = away.with_name("gone")
        away.rename(hidden)
        before = life.buffer.position
        life.publish(queue_id, bytes(60_000))
        eventually(life.state, "a piece that cannot be written")  # until the target is back, it is tried again
        for _ in range(7):
            life.publish(queue_id, bytes(60_000))
        lag = life.buffer.lag()
        assert (lag.messages, lag.bytes > 400_000) == (8, True)
        assert life.buffer.waiting_bytes == 0
        assert life.buffer.dropping
        hidden.rename(away)
        life.await_shipped()
        eventually(lambda: (life.bases, life.state()) == (2, ""), "the new base to be noted")
        life.publish(queue_id, b"after")
        life.await_shipped()
        held, boot = life.held, life.messages.boot
    moment, found = restored(target, Moment(), tmp_path / "last")
    assert (moment.position, found) == (max(held), held[max(held)])
    moment, found = restored(target, Moment(boot=boot, position=before + 7), tmp_path / "between")
    assert before <= moment.position < before + 7
    assert found == held[moment.position]
    assert "were not shipped" in moment.problems[0]


def test_a_directory_that_is_not_there_is_not_made(data: Path, tmp_path: Path) -> None:
    """It may be a disk that is not mounted."""
    with ShippedLife(data, DirectoryTarget(tmp_path / "nowhere")) as life:
        life.declare()
        eventually(lambda: "No such file" in life.state(), "the directory to be missed", seconds=SHIP_SECONDS)
        life.stop_seconds = 0.0
    assert not (tmp_path / "nowhere").exists()


def test_another_store_is_not_mixed_with(data: Path, away: Path, tmp_path: Path) -> None:
    lived(data, away, 2, 2)
    other = tmp_path / "other"
    other.mkdir()
    with ShippedLife(other, DirectoryTarget(away)) as life:
        eventually(lambda: "a place of its own" in life.state(), "the other store to be seen", seconds=SHIP_SECONDS)
        life.declare()
        assert life.buffer.waiting_bytes == 0
    assert len(list(away.iterdir())) == 1


def test_the_state_has_what_is_told(data: Path, away: Path) -> None:
    """A client that gets a confirm may ask for the state at once."""
    told = list[tuple[int, int]]()

    def on_safe() -> None:
        if life.buffer.safe >= 0:
            told.append((life.bases, life.position - life.buffer.safe))

    with ShippedLife(data, DirectoryTarget(away), on_safe=on_safe) as life:
        for _ in range(3):
            life.publish(life.declare(), b"told")
            life.await_shipped()
    assert set(told) == {(1, 0)}


# What is kept


def test_what_no_kept_moment_needs_is_removed(data: Path, away: Path, tmp_path: Path) -> None:
    short = RULES._replace(retention=retention.ShipRetention(0.0, 2))
    target = DirectoryTarget(away)
    for _ in range(4):
        with ShippedLife(data, target, short) as life:
            life.publish(life.declare(), b"kept")
            life.await_shipped()
            held = life.held
    bases = read_bases(target)
    assert (len(bases.found), bases.damaged) == (2, [])
    assert len(list(away.iterdir())) == 2
    _moment, found = restored(target, Moment(), tmp_path / "found")
    assert found == held[max(held)]


def test_the_latest_broker_counts_and_not_the_highest_boot(data: Path, away: Path, tmp_path: Path) -> None:
    """A copy ships with higher boots, and then the first directory again, as after a second promotion."""
    short, target = RULES._replace(retention=retention.ShipRetention(0.0, 2)), DirectoryTarget(away)

    def ship(directory: Path) -> tuple[int, Contents]:
        with ShippedLife(directory, target, short) as life:
            life.publish(life.declare(), directory.name.encode())
            life.await_shipped()
            return life.messages.boot, life.held[max(life.held)]

    ship(data)
    copy = shutil.copytree(data, tmp_path / "copy")
    high = [ship(copy)[0] for _ in range(2)][-1]
    low, held = ship(data)
    assert low < high
    _moment, found = restored(target, Moment(), tmp_path / "found")
    assert found == held
    assert {base.store.boot for base in read_bases(target).found} == {high, low}, "two bases are kept"


def test_the_base_that_an_old_moment_needs_is_kept() -> None:
    bases = [_base(time) for time in (10_000, 20_000, 30_000, 40_000)]
    first_kept = retention.ShipRetention(15.0, 1).first_kept(bases, 40.0)
    assert first_kept == bases[1], "from second 25 on every moment is kept, and the base of second 20 starts it"
    assert retention.ShipRetention(15.0, 4).first_kept(bases, 40.0) is None
    assert retention.ShipRetention(50.0, 1).first_kept(bases, 40.0) is None


def _base(time: int) -> ShippedBase:
    return ShippedBase("chain", StoreName(bytes(16), 0, 1), 1, 2, time, BaseEnd(1, 0, 0))
