"""A target that fails at one call, before or after it took effect: it is tried again, and all is there in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.ship.restored_moment import Moment
from storage.ship.retention import ShipRetention
from storage.ship.targets.directory_target import DirectoryTarget
from tests.unit.shipping.shipped_life import RULES, ShippedLife, restored

MESSAGES = 4
RULES_WITH_REMOVAL = RULES._replace(retention=ShipRetention(0.0, 1))
"""A new base has the one before it removed."""


class FailingTarget:
    """The directory, whose `call` of this name fails once, the `at`-th time."""

    def __init__(self, directory: Path, call: str, at: int, how: str) -> None:
        self._target = DirectoryTarget(directory)
        self._call, self._left, self._how = call, at, how
        self.failed = False

    def __str__(self) -> str:
        return str(self._target)

    def _fails(self, call: str, how: str) -> None:
        if call != self._call or self.failed or how != self._how:
            return
        self._left -= 1
        if self._left < 0:
            self.failed = True
            raise OSError(5, f"the target fails {how} {call}")

    def begin(self, chain: str) -> None:
        self._fails("begin", "before")
        self._target.begin(chain)
        self._fails("begin", "after")

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        self._fails("put", "before")
        self._tear(chain, name, parts)
        self._target.put(chain, name, parts)
        self._fails("put", "after")

    def _tear(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        """Leave the beginning of a piece, as a server does that loses its memory."""
        try:
            self._fails("put", "torn")
        except OSError:
            data = b"".join(parts)
            self._target.put(chain, name, (data[: len(data) // 2],))
            raise

    def chains(self) -> list[str]:
        self._fails("chains", "before")
        return self._target.chains()

    def names(self, chain: str) -> list[str]:
        self._fails("names", "before")
        return self._target.names(chain)

    def get(self, chain: str, name: str) -> bytes:
        self._fails("get", "before")
        return self._target.get(chain, name)

    def remove(self, chain: str, name: str) -> None:
        self._fails("remove", "before")
        self._target.remove(chain, name)
        self._fails("remove", "after")

    def close(self) -> None:
        self._target.close()


CALLS = [
    *((call, how) for call in ("begin", "put", "remove") for how in ("before", "after")),
    *((call, "before") for call in ("chains", "names", "get")),
    ("put", "torn"),
]


@pytest.mark.slow
@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize(("call", "how"), CALLS)
def test_a_target_that_fails_once_has_everything_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, how: str, at: int
) -> None:
    for name in ("RETRY_SECONDS", "RETRY_SECONDS_MAX"):
        monkeypatch.setattr(f"broker.server.shipping.ship_thread.{name}", 0.01)
    data, away = tmp_path / "data", tmp_path / "away"
    data.mkdir()
    away.mkdir()
    target = FailingTarget(away, call, at, how)
    for _boot in range(3):
        with ShippedLife(data, target, RULES_WITH_REMOVAL) as life:
            queue_id = life.declare()
            for number in range(MESSAGES):
                life.publish(queue_id, b"%d" % number)
            life.settle(queue_id, 1)
            life.await_shipped()
            held = life.held
        assert life.buffer.safe == max(held), "confirms that wait for the place are sent"
    assert target.failed
    moment, found = restored(DirectoryTarget(away), Moment(), tmp_path / "found")
    assert (moment.position, moment.problems) == (max(held), [])
    assert found == held[moment.position]
