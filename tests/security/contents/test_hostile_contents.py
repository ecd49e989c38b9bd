"""A short round of what `make hostile-contents` does for long, without forged records; and mistakes to be found.

Another round, with forged records, is in test_forged_journal.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.kills.cycle import BrokenPromiseError
from tests.planted.planted_catalogue import with_mistake
from tests.security.contents.contents_round import SMALL, prepared

SEED = 2

pytestmark = pytest.mark.slow


def test_hostile_contents_are_contents(tmp_path: Path) -> None:
    with prepared(tmp_path, SEED, SMALL, of_the_journal=False, form="text") as one:
        one.go_through()
    assert one.said["hostile bodies"]
    assert one.said["hostile queues"]
    assert one.said["messages read"]


@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        ("log lines with control characters", "a line of the log"),
        ("labels not escaped", "/metrics"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, name: str, symptom: str) -> None:
    with prepared(tmp_path, SEED, SMALL, of_the_journal=False, form="text", environment=with_mistake(name)) as one:
        with pytest.raises(BrokenPromiseError, match=symptom) as found:
            one.go_through()
    assert f"--seed {SEED} --rounds 1 --small" in str(found.value)
    assert str(tmp_path) in str(found.value)
