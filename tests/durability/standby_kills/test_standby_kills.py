"""One round of what `make standby-kills` does for long; and the accounts notice what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.standby_kills.message_accounts import MessageAccounts
from tests.durability.standby_kills.standby_round import StandbyRound


@pytest.mark.slow
def test_a_standby_takes_over_with_all_that_was_shipped(tmp_path: Path) -> None:
    tried = StandbyRound(tmp_path, 4, promotions=1)
    tried.go_through()
    assert tried.promotions == 1


def accounts() -> MessageAccounts:
    """Messages 0 and 1 are shipped, 2 was shipped and acknowledged, 3 is confirmed alone."""
    kept = MessageAccounts()
    kept.confirmed(kept.publish(3), shipped=True)
    kept.acknowledged([b"2"])
    kept.all_shipped()
    kept.confirmed(kept.publish(1), shipped=False)
    return kept


@pytest.mark.parametrize("found", [[b"0", b"1"], [b"0", b"1", b"3"]])
def test_what_may_be_is_right(found: list[bytes]) -> None:
    accounts().check(found)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([b"0"], "not there"),
        ([b"0", b"1", b"1"], "twice"),
        ([b"0", b"1", b"2"], "there again"),
        ([b"1", b"0"], "not in their order"),
    ],
)
def test_what_must_not_be_is_noticed(found: list[bytes], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        accounts().check(found)
