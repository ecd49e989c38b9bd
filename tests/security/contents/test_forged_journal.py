"""A user who may publish into one queue makes records of the journal; no start takes one for its own.

The store's UUID is told to everybody who may read metrics, the boot and the ids of queues are small numbers.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.durability.kills.cycle import BrokenPromiseError
from tests.planted.planted_catalogue import with_mistake
from tests.security.contents.contents_round import SMALL, Round, prepared
from tests.security.contents.disk_images import covering, files_of
from tests.security.contents.forged_records import LARGE_NUMBER, NEVER, batch, found_records, record

SEED = 1
VICTIM = 1
"""The id of the first queue."""
SHAPES: dict[str, dict[str, object]] = {
    "a queue is emptied, and has a message that nobody published": {},
    "a message with a time that no store writes": {"time": NEVER},
    "a queue is deleted": {"deleted": True},
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_forged_record_is_no_record(tmp_path: Path, shape: str, *, killed: bool) -> None:
    with prepared(tmp_path, SEED, SMALL) as one:
        _forge(one, killed=killed, **SHAPES[shape])
    assert one.said["messages read"]


def test_a_start_that_takes_forged_records_is_found(tmp_path: Path) -> None:
    with prepared(tmp_path, SEED, SMALL, environment=with_mistake("forged records taken")) as one:
        with pytest.raises(BrokenPromiseError, match=r"nobody has published|confirmed|expected"):
            _forge(one, killed=True)


def test_a_round_with_forged_records(tmp_path: Path) -> None:
    with prepared(tmp_path, SEED, SMALL, form="json") as one:
        one.go_through()
    assert one.said["forged records"]
    assert one.said["real records"]


def test_real_records_are_found_and_can_be_forged(tmp_path: Path) -> None:
    """The places of their checksums are worked out: a record that is forged again is as whole as the one that was
    found."""
    with prepared(tmp_path, SEED, SMALL) as one:
        one.begin()
        one.victims_publish()
        one.told.process.kill()
        real = [found for data in files_of(one.told.process.data_dir).values() for found in found_records(data)]
    assert real, "the magic of the journal's records is another one, or their checksums are elsewhere"
    for found in real:
        (again,) = found_records(found.forged([0] * len(found.counters_at), found.payload))
        assert again == found
        (other,) = found_records(found.forged([5] * len(found.counters_at), b"another"))
        assert other.payload == b"another"
        assert other.data != found.data


def _forge(one: Round, *, killed: bool, **shape: object) -> None:
    """Have Mallory publish bodies that are full of one record, and look at everything after each start that follows.

    The record is of this boot, and the broker is killed; or it is of the next, which is stopped in order as well.
    """
    dice = Random(SEED)
    one.begin()
    one.victims_publish()
    for _ in range(3 if killed else 1):
        boot = one.told.boot if killed else one.told.boot + 1
        forged = record(one.uuid, boot, LARGE_NUMBER, batch(VICTIM, boot, **shape))  # type: ignore[arg-type]
        for _ in range(3):
            one.publish_as_mallory(covering(forged, dice), covering(forged, dice), b"little")
        for _ in range(1 if killed else 2):
            one.end_life(killed=killed)
            one.told.start()
            one.look()
