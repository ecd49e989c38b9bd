"""A standby's stores: each moment as it was, after kills at any of its steps, over new bases and damaged pieces."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, REPLACED
from storage.ship.shipped_chains import ShippedBase, read_bases
from storage.ship.standby.follow_note import NAME, Following, read_note, refuse_following
from storage.ship.standby.followed_store import FollowedStore
from storage.ship.targets.directory_target import DirectoryTarget
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt, StoreError
from tests.unit.shipping.shipped_life import Contents, ShippedLife, opened

STEPS = 80


@pytest.fixture
def standby(tmp_path: Path) -> Path:
    (tmp_path / "standby").mkdir()
    return tmp_path / "standby"


def follower(target: ShipTarget, directory: Path) -> FollowedStore:
    followed = FollowedStore(target, str(target), directory, MESSAGES_DIRECTORY, DEFINITIONS_FILE, REPLACED)
    followed.open()
    return followed


def take(followed: FollowedStore, base: ShippedBase | None) -> None:
    assert base is not None
    followed.take(followed.prepare(base, lambda: None))


def killed(directory: Path, into: Path) -> Path:
    """The directory as a kill at this moment leaves it."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(directory, into)
    return into


def on_disk(directory: Path, into: Path) -> Contents:
    with opened(killed(directory, into)) as contents:
        return contents


def moments(held: dict[int, Contents], first: int, last: int) -> Iterator[Contents]:
    return (held[position] for position in range(first, last + 1) if position in held)


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_a_kill_at_any_step_leaves_a_moment_from_which_it_goes_on(
    data: Path, away_target: DirectoryTarget, standby: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    with ShippedLife(data, away_target) as life:
        life.declare()
        life.await_shipped()
        followed = follower(away_target, standby)
        take(followed, followed.newer_base())
        reached = 0
        for step in range(STEPS):
            life.some_step(chance)
            if chance.random() < 0.5:
                followed.advance(10.0)
            if chance.random() < 0.3:
                followed.commit()
            if step % 8 == 7:
                life.await_shipped()
                assert followed.note is not None
                found = on_disk(standby, tmp_path / "killed")
                assert found in moments(life.held, reached, followed.note.position), f"seed {seed}, step {step}"
                followed.close()
                committed = read_note(standby)
                assert committed is not None
                reached = committed.position
                assert on_disk(standby, tmp_path / "killed") == life.held[reached]
                standby = killed(standby, tmp_path / f"standby-{step}")
                followed = follower(away_target, standby)
        life.await_shipped()
        assert not followed.advance(10.0)
        followed.close()
        assert on_disk(standby, tmp_path / "killed") == life.held[life.buffer.position]


def test_a_place_of_each_kind_is_followed(target: ShipTarget, data: Path, standby: Path, tmp_path: Path) -> None:
    with ShippedLife(data, target) as life, closing(follower(target, standby)) as followed:
        queue = life.declare()
        life.await_shipped()
        take(followed, followed.newer_base())
        life.publish(queue, b"a", b"b")
        life.await_shipped()
        assert not followed.advance(10.0)
        assert (followed.newer_base(), followed.later_base()) == (None, None)
        followed.refuse_hole()
        followed.commit()
        assert on_disk(standby, tmp_path / "killed") == life.held[life.buffer.position]


def test_a_later_start_of_the_broker_gives_a_new_base(
    data: Path, away_target: DirectoryTarget, standby: Path, tmp_path: Path
) -> None:
    chance = random.Random(1)
    with ShippedLife(data, away_target) as life:
        life.declare()
        life.await_shipped()
    with closing(follower(away_target, standby)) as followed:
        take(followed, followed.newer_base())
        assert followed.newer_base() is None
        with ShippedLife(data, away_target) as life:
            for _ in range(5):
                life.some_step(chance)
            life.await_shipped()
            assert not followed.advance(10.0)
            prepared = followed.prepare(found, lambda: None) if (found := followed.newer_base()) else None
            assert prepared is not None
            # A kill before, and one amid the exchange: the old base, and then the new one.
            before = killed(standby, tmp_path / "before")
            shutil.move(before / "restoring", before / "restored")
            with closing(follower(away_target, before)) as resumed:
                assert resumed.note == prepared
            assert not list(before.glob("replaced-*"))
            followed.take(prepared)
            assert followed.newer_base() is None
            followed.advance(10.0)
            followed.commit()
            assert on_disk(standby, tmp_path / "killed") == life.held[life.buffer.position]
    assert not list(standby.glob("replaced-*"))


def test_changes_that_were_not_shipped_are_passed_by_a_base_behind_them(
    data: Path, away_target: DirectoryTarget, standby: Path, tmp_path: Path
) -> None:
    with (
        ShippedLife(data, away_target, buffer_bytes=1 << 14) as life,
        closing(follower(away_target, standby)) as followed,
    ):
        queue = life.declare()
        life.await_shipped()
        take(followed, followed.newer_base())
        life.publish(queue, b"journaled from here on")
        life.await_shipped()
        life.publish(queue, bytes(1 << 15))  # more than may wait
        life.await_shipped()
        life.publish(queue, b"shipped")
        life.await_shipped()
        with pytest.raises(StoreCorrupt, match="were not shipped"):
            followed.advance(60.0)
        take(followed, followed.later_base())
        assert not followed.advance(10.0)
        followed.commit()
        assert on_disk(standby, tmp_path / "killed") == life.held[life.buffer.position]


def test_a_missing_piece_is_noticed(data: Path, away_target: DirectoryTarget, standby: Path, tmp_path: Path) -> None:
    with ShippedLife(data, away_target) as life, closing(follower(away_target, standby)) as followed:
        queue = life.declare()
        life.await_shipped()
        take(followed, followed.newer_base())
        for body in (b"a", b"b"):
            life.publish(queue, body)
            life.await_shipped()
        followed.refuse_hole()
        behind = read_bases(away_target).found[0].end
        next((tmp_path / "away").glob(f"*/{behind + 1:012d}.records")).unlink()
        assert not followed.advance(10.0)
        with pytest.raises(StoreCorrupt, match="is missing"):
            followed.refuse_hole()


def test_a_brokers_directory_is_not_followed_into_and_a_standbys_not_served(
    data: Path, away_target: DirectoryTarget, standby: Path
) -> None:
    with ShippedLife(data, away_target) as life:
        life.declare()
        life.await_shipped()
    with pytest.raises(StoreError, match="holds a broker's data"):
        follower(away_target, data)
    with closing(follower(away_target, standby)) as followed:
        take(followed, followed.newer_base())
    with pytest.raises(Following, match="leveret promote"):
        refuse_following(standby)
    followed = follower(away_target, standby)
    assert followed.promote().promoted
    refuse_following(standby)
    assert (standby / NAME).exists()
