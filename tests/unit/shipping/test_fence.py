"""The fence of a place: two brokers and a promotion, in every order of their calls at the target.

Time is virtual: it goes on by one call at the target, of one of them, as the test chooses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import pytest

from harness.waiting import eventually
from storage.ship.place_epochs import FOLDER, newest_epoch
from storage.ship.place_owner import Fenced, PlaceOwner, read_note, refuse_fenced
from storage.ship.targets.directory_target import DirectoryTarget
from storage.ship.targets.ship_target import PieceExists, ShipTarget
from storage.storage_errors import StoreError
from tests.planted.mistake import Fence
from tests.planted.planted_catalogue import CATALOGUE, found_by
from tests.unit.shipping.shipped_life import ShippedLife

PLACE = "place"
CHAIN = "chain"


class SteppedTarget:
    """A target in memory. Each call waits until the test lets its broker make it, and may be cut off behind it."""

    def __init__(
        self, files: dict[tuple[str, str], bytes], refuse: Callable[[str, str], None] = lambda _chain, _name: None
    ) -> None:
        """`refuse` raises OSError for a chain and a name that cannot be put."""
        self._files = files
        self._refuse = refuse
        self._go = SimpleQueue[bool]()
        self._came = SimpleQueue[bool]()
        self.free = False
        """Calls do not wait."""
        self.overlooked = 0
        """Newest objects that listings lack."""

    def _step(self) -> None:
        if not self.free:
            self._came.put(True)
            if not self._go.get():
                raise _CutOff

    def begin(self, chain: str) -> None:
        """Do nothing: folders are names."""

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        self._step()
        self._refuse(chain, name)
        if self._files.setdefault((chain, name), b"".join(parts)) != b"".join(parts):
            raise PieceExists(f"{chain}/{name}")

    def names(self, chain: str) -> list[str]:
        self._step()
        found = sorted(name for folder, name in self._files if folder == chain)
        return found[: len(found) - self.overlooked]

    def get(self, chain: str, name: str) -> bytes:
        self._step()
        try:
            return self._files[chain, name]
        except KeyError:
            raise FileNotFoundError(2, "no such object", name) from None

    def chains(self) -> list[str]:
        return sorted({folder for folder, _name in self._files})

    def remove(self, chain: str, name: str) -> None:
        del self._files[chain, name]

    def close(self) -> None:
        """Do nothing."""

    # By the test

    def run(self, act: Callable[[SteppedTarget], None]) -> None:
        """Run a broker's act in a thread, up to its first call."""
        threading.Thread(target=self._run, args=(act,), daemon=True).start()
        self.waits = self._came.get()

    def _run(self, act: Callable[[SteppedTarget], None]) -> None:
        with suppress(_CutOff):
            act(self)
        self._came.put(False)

    def step(self) -> None:
        """Let it make its next call, up to the one after that or its end."""
        self._go.put(True)
        self.waits = self._came.get()

    def kill(self) -> None:
        """End it at its call, which is not made."""
        self._go.put(False)
        self.waits = self._came.get()


class _CutOff(BaseException):
    """The process is killed."""


def orders(first: Callable[[], SteppedTarget], second: Callable[[], SteppedTarget]) -> Iterator[None]:
    """Carry out two brokers' acts in every order of their calls: yields after each order."""
    choices: list[bool] = []
    while True:
        targets, taken = (first(), second()), list[bool]()
        while targets[0].waits or targets[1].waits:
            at = len(taken)
            free = targets[0].waits and targets[1].waits
            pick = choices[at] if at < len(choices) else not targets[0].waits
            targets[pick].step()
            taken.append(pick)
            if not free:
                taken[-1] = True  # no choice: not to be tried the other way
        yield
        while taken and taken[-1]:
            taken.pop()
        if not taken:
            return
        choices = [*taken[:-1], True]


def owner_in(directory: Path, target: ShipTarget) -> PlaceOwner:
    directory.mkdir(exist_ok=True)
    return PlaceOwner(target, PLACE, directory)


def claimed(directory: Path, target: DirectoryTarget) -> PlaceOwner:
    owner = owner_in(directory, target)
    owner.claim()
    return owner


def test_a_broker_owns_its_place_again_at_each_start(tmp_path: Path, away_target: DirectoryTarget) -> None:
    assert [claimed(tmp_path / "a", away_target).epoch for _ in range(3)] == [1, 2, 3]


def test_another_directory_is_refused_and_not_marked(tmp_path: Path, away_target: DirectoryTarget) -> None:
    first = claimed(tmp_path / "a", away_target)
    with pytest.raises(Fenced, match="is owned by another"):
        claimed(tmp_path / "b", away_target)
    refuse_fenced(tmp_path / "b")
    first.check()


def test_a_promotion_fences_the_old_broker_for_good(tmp_path: Path, away_target: DirectoryTarget) -> None:
    old = claimed(tmp_path / "a", away_target)
    fenced = owner_in(tmp_path / "b", away_target).take_over()
    assert fenced is not None
    assert fenced.directory == str(tmp_path / "a")
    with pytest.raises(Fenced):
        old.check()
    for refused in (lambda: refuse_fenced(tmp_path / "a"), lambda: claimed(tmp_path / "a", away_target)):
        with pytest.raises(Fenced):
            refused()
    assert claimed(tmp_path / "b", away_target).epoch == 3
    owner_in(tmp_path / "a", away_target).take_over()
    refuse_fenced(tmp_path / "a")
    assert claimed(tmp_path / "a", away_target).epoch == 5


def test_a_copied_directory_and_its_original_do_not_both_own_the_place(
    tmp_path: Path, away_target: DirectoryTarget
) -> None:
    first = claimed(tmp_path / "a", away_target)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "shipping.epoch").write_bytes((tmp_path / "a" / "shipping.epoch").read_bytes())
    claimed(tmp_path / "b", away_target)
    with pytest.raises(Fenced):
        first.check()


def test_a_listing_that_lags_hides_no_owner(tmp_path: Path) -> None:
    target = SteppedTarget({})
    target.free = True
    for _ in range(4):
        owner_in(tmp_path / "a", target).claim()
    target.overlooked = 3
    with pytest.raises(Fenced):
        owner_in(tmp_path / "b", target).claim()
    newest = newest_epoch(target)
    assert newest is not None
    assert newest.number == 4


@pytest.mark.parametrize("calls", range(6))
def test_a_kill_at_any_call_of_a_claim_leaves_the_place_to_its_owner(tmp_path: Path, calls: int) -> None:
    files: dict[tuple[str, str], bytes] = {}
    for _ in range(2):
        killed = SteppedTarget(files)
        killed.run(lambda target: owner_in(tmp_path / "a", target).claim())
        for _step in range(calls):
            if killed.waits:
                killed.step()
        if killed.waits:
            killed.kill()
    again = SteppedTarget(files)
    again.free = True
    owner_in(tmp_path / "a", again).claim()
    with pytest.raises(Fenced):
        owner_in(tmp_path / "b", again).claim()


def test_a_place_that_takes_nothing_for_a_while_leaves_no_gap(tmp_path: Path) -> None:
    """Behind a gap a listing that lags would hide the owner."""
    full = [True]

    def refuse(_chain: str, _name: str) -> None:
        if full[0]:
            raise OSError(28, "the place is full")

    target = SteppedTarget({}, refuse)
    target.free = True
    owner = owner_in(tmp_path / "a", target)
    for _ in range(3):
        with pytest.raises(OSError, match="full"):
            owner.claim()
    full[0] = False
    owner.claim()
    assert owner.epoch == 1
    target.overlooked = 1
    with pytest.raises(Fenced):
        owner_in(tmp_path / "b", target).claim()


def test_of_two_starts_in_any_order_of_their_calls_one_owns_the_place(tmp_path: Path) -> None:
    """Each start that was not refused looks again: at most one is left."""
    files: dict[tuple[str, str], bytes] = {}
    left: list[str] = []

    def start(name: str) -> SteppedTarget:
        def act(target: SteppedTarget) -> None:
            with suppress(Fenced):
                owner = owner_in(tmp_path / name, target)
                owner.claim()
                target.free = True
                left.append(name)
                owners[name] = owner

        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "shipping.epoch").unlink(missing_ok=True)
        target = SteppedTarget(files)
        target.run(act)
        return target

    owners: dict[str, PlaceOwner] = {}

    def first() -> SteppedTarget:
        files.clear()
        left.clear()
        return start("a")

    tried = 0
    for _ in orders(first, lambda: start("b")):
        assert len(left) == 1, left
        owners[left[0]].check()
        tried += 1
    assert tried > 10


def test_what_was_confirmed_as_shipped_is_read_by_a_promotion(tmp_path: Path) -> None:
    """A broker puts pieces, and confirms each when it is not fenced behind it. A promotion fences, and then reads."""
    files: dict[tuple[str, str], bytes] = {}
    confirmed: list[str] = []
    read: list[str] = []

    def old() -> SteppedTarget:
        files.clear()
        confirmed.clear()
        read.clear()
        for name in "ab":
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "shipping.epoch").unlink(missing_ok=True)
        target = SteppedTarget(files)
        target.free = True
        owner = owner_in(tmp_path / "a", target)
        owner.claim()
        target.free = False

        def act(target: SteppedTarget) -> None:
            with suppress(Fenced):
                for name in ("1", "2", "3"):
                    target.put(CHAIN, name, (b"piece",))
                    owner.check()
                    confirmed.append(name)

        target.run(act)
        return target

    def standby() -> SteppedTarget:
        def act(target: SteppedTarget) -> None:
            owner_in(tmp_path / "b", target).take_over()
            read.extend(target.names(CHAIN))

        target = SteppedTarget(files)
        target.run(act)
        return target

    found = set[int]()
    for _ in orders(old, standby):
        assert set(confirmed) <= set(read), (confirmed, read)
        note = read_note(tmp_path / "a")
        assert note is not None
        assert bool(note.fenced) == (len(confirmed) < 3)
        found.add(len(confirmed))
    assert found == {0, 1, 2, 3}


def test_an_epoch_that_cannot_be_read_is_nobodys_permission(tmp_path: Path, away_target: DirectoryTarget) -> None:
    first = claimed(tmp_path / "a", away_target)
    (tmp_path / "away" / FOLDER / "000000000002.epoch").write_bytes(b"{")
    with pytest.raises(Fenced, match="cannot be read"):
        first.check()
    with pytest.raises(StoreError, match="cannot be read"):
        owner_in(tmp_path / "b", away_target).claim()


def test_without_a_whole_base_nothing_is_confirmed(tmp_path: Path) -> None:
    """A promotion could read nothing of what is at the place."""

    def refuse_base(chain: str, name: str) -> None:
        if name.endswith(".base"):
            raise OSError(5, "no base is taken")

    files: dict[tuple[str, str], bytes] = {}
    target = SteppedTarget(files, refuse_base)
    target.free = True
    data = tmp_path / "data"
    data.mkdir()
    with ShippedLife(data, target) as life:
        life.publish(life.declare(), b"confirmed by nobody")
        eventually(lambda: "no base is taken" in life.state(), "the end of the base to be refused")
        assert any(name.endswith(".records") for _chain, name in files)
        assert life.buffer.safe == -1
        life.stop_seconds = 0.0


ACTS = {
    "base": test_without_a_whole_base_nothing_is_confirmed,
    "two starts": test_of_two_starts_in_any_order_of_their_calls_one_owns_the_place,
    "promotion": test_what_was_confirmed_as_shipped_is_read_by_a_promotion,
}


@pytest.mark.pure_core("its code is replaced")
@pytest.mark.parametrize(("name", "fence"), found_by(Fence))
def test_a_planted_mistake_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fence: Fence) -> None:
    CATALOGUE[name].plant(monkeypatch.setattr)
    with pytest.raises(AssertionError):
        ACTS[fence.acts](tmp_path)
