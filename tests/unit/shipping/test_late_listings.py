"""A place whose listings lack what was put last, which is there by its name: nothing takes it for missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, REPLACED
from storage.ship.restored_moment import Moment
from storage.ship.retention import ShipRetention
from storage.ship.shipped_chains import ShippedBase, read_bases
from storage.ship.standby.followed_store import FollowedStore
from storage.ship.targets.directory_target import DirectoryTarget
from storage.storage_errors import StoreCorrupt
from tests.unit.shipping.shipped_life import RULES, Contents, ShippedLife, restored


class LateTarget:
    """The directory, with listings as they were at some time: see `stop`."""

    def __init__(self, directory: Path) -> None:
        self._target = DirectoryTarget(directory)
        self._listed: dict[str, list[str]] | None = None

    def __str__(self) -> str:
        return str(self._target)

    def stop(self, hidden: Callable[[str, str], bool] = lambda _chain, _name: False) -> None:
        """List nothing from now on of what is put, nor what is `hidden`, by its chain and name."""
        found = {chain: self._target.names(chain) for chain in self._target.chains()}
        shown = {chain: [name for name in names if not hidden(chain, name)] for chain, names in found.items()}
        self._listed = {chain: names for chain, names in shown.items() if names}

    def chains(self) -> list[str]:
        return self._target.chains() if self._listed is None else sorted(self._listed)

    def names(self, chain: str) -> list[str]:
        return self._target.names(chain) if self._listed is None else self._listed.get(chain, [])

    def begin(self, chain: str) -> None:
        self._target.begin(chain)

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        self._target.put(chain, name, parts)

    def get(self, chain: str, name: str) -> bytes:
        return self._target.get(chain, name)

    def remove(self, chain: str, name: str) -> None:
        self._target.remove(chain, name)

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def late(away: Path) -> LateTarget:
    return LateTarget(away)


def shipped(data: Path, target: LateTarget, retention: ShipRetention = RULES.retention) -> Contents:
    """Ship a life, and return its contents."""
    with ShippedLife(data, target, RULES._replace(retention=retention), owned=True) as life:
        life.publish(life.declare(), data.name.encode())
        life.await_shipped()
        for body in (b"behind the base", b"last"):
            life.publish(1, body)
            life.await_shipped()
        return life.held[max(life.held)]


def follower(target: LateTarget, directory: Path) -> FollowedStore:
    directory.mkdir()
    followed = FollowedStore(target, str(target), directory, MESSAGES_DIRECTORY, DEFINITIONS_FILE, REPLACED)
    followed.open()
    return followed


def take_base(followed: FollowedStore) -> ShippedBase:
    """Have a standby take the first base that it finds."""
    base = followed.newer_base()
    assert base is not None
    followed.take(followed.prepare(base, lambda: None))
    return base


def test_a_chain_that_is_not_listed_is_restored_from(data: Path, late: LateTarget, tmp_path: Path) -> None:
    shipped(data, late)
    late.stop()
    held = [shipped(data, late) for _ in range(3)][-1]
    moment, found = restored(late, Moment(), tmp_path / "found")
    assert (moment.boot, moment.problems, found) == (4, [], held)


def test_of_what_is_listed_any_piece_may_lack(data: Path, late: LateTarget, tmp_path: Path) -> None:
    held = shipped(data, late)
    late.stop(lambda _chain, name: not name.startswith("000000000001"))
    moment, found = restored(late, Moment(), tmp_path / "found")
    assert (moment.problems, found) == ([], held)


def test_a_standby_finds_a_later_start_that_is_not_listed(data: Path, late: LateTarget, tmp_path: Path) -> None:
    followed = follower(late, tmp_path / "standby")
    shipped(data, late)
    base = take_base(followed)
    assert followed.newer_base() is None
    late.stop()
    shipped(data, late)
    later = followed.newer_base()
    assert later is not None
    assert later.store.boot == base.store.boot + 1
    followed.close()


def test_a_standby_takes_no_piece_for_missing_that_is_not_listed(data: Path, late: LateTarget, tmp_path: Path) -> None:
    followed = follower(late, tmp_path / "standby")
    shipped(data, late)
    base = take_base(followed)
    late.stop(lambda _chain, name: name.startswith(f"{base.end + 1:012d}"))
    followed.refuse_hole()
    (missing,) = (tmp_path / "away" / base.chain).glob(f"{base.end + 1:012d}.*")
    missing.unlink()
    with pytest.raises(StoreCorrupt, match="is missing"):
        followed.refuse_hole()
    followed.close()


def test_retention_keeps_what_is_not_listed(data: Path, late: LateTarget, tmp_path: Path) -> None:
    """A directory that is promoted again has lower boots, so its chains come first in a listing."""
    shipped(data, late)
    copy = shutil.copytree(data, tmp_path / "copy")
    for _ in range(2):
        shipped(copy, late)
    shutil.copy(copy / "shipping.epoch", data)  # as if it had been promoted
    late.stop()
    held = shipped(data, late, ShipRetention(0.0, 1))
    assert [base.store.boot for base in read_bases(late).found] == [2]
    _moment, found = restored(late, Moment(), tmp_path / "found")
    assert found == held
