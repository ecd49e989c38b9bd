"""Lives and starts: with the same settings, with others, on a disk that is full, by another release."""

from __future__ import annotations

import atexit
import random
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from io import BytesIO
from pathlib import Path

from harness.project import ROOT
from tests.durability.operators.accepted_loss import Loss
from tests.durability.operators.broker_lives import (
    ACCEPTS,
    Live,
    drawn_settings,
    live,
    other_store_settings,
    settings_known,
    shown,
)
from tests.durability.operators.operated_store import OperatedStore, chance
from tests.durability.operators.operator_step import Scene, Step
from tests.durability.operators.step_record import Cut

EARLIER = "a2fcb97"
"""The commit of an earlier release: the last one whose journal has no end of its own."""
STEPS_MAX = 3
LEFT_BYTES = (0, 0, 4 << 10, 64 << 10, 1 << 20)
"""Bytes left on the disk by whoever fills it."""
CUT_CHANCE, FILL_CHANCE = 0.4, 0.15
OF_RELEASES = ("feature", "release", "version", "does not know", "newer")
"""Words of a refusal by a release that does not know what is there."""


def drawn_life(dice: random.Random) -> Live:
    """A life of a few steps, with any end."""
    steps = dice.randint(0, STEPS_MAX)
    cut = Cut.drawn(dice) if chance(dice, CUT_CHANCE) else None
    fills = dice.choice(LEFT_BYTES) if steps and chance(dice, FILL_CHANCE) else None
    return Live(steps, stops=chance(dice, 0.4), cut=cut, fills=fills)


def live_on(scene: Scene) -> None:
    """Another life."""
    store, how, settings = scene.store, drawn_life(scene.dice), drawn_settings(scene.dice)
    store.tell(f"a life with {shown(settings)}: {how}")
    store.expect_reason(live(store, scene.clients, settings, how))


def start_otherwise(scene: Scene) -> None:
    """A life with another setting of the store."""
    store, how, settings = scene.store, drawn_life(scene.dice), other_store_settings(scene.dice)
    store.tell(f"a life with {shown(settings)}: {how}")
    store.expect_reason(live(store, scene.clients, settings, how))


def start_alone(scene: Scene) -> None:
    """A start without clients, which ends at once, perhaps before it is ready."""
    store, settings = scene.store, other_store_settings(scene.dice)
    how = drawn_life(scene.dice)._replace(steps=0, fills=None)
    store.tell(f"a start without clients, with {shown(settings)}: {how}")
    store.expect_reason(live(store, None, settings, how))


def accept_by_setting(scene: Scene) -> None:
    """A start with the setting that gives up what is lost; it is the last thing that is done."""
    store = scene.store
    store.tell(f"a start with store.{ACCEPTS}")
    if any(harm.of_journal for harm in store.harms):
        for history in store.histories:
            history.loss = Loss.DAMAGED  # no line says which batches: it may be in their midst
        store.over = True
    how = Live(0, stops=chance(scene.dice, 0.5))
    store.expect_reason(live(store, None, {"store": {ACCEPTS: True}}, how))


def may_accept(store: OperatedStore) -> bool:
    """There is the setting, and what may be lost is of the journal: what is left of definitions nobody has promised."""
    return settings_known("store", ACCEPTS) and all(harm.of_journal for harm in store.harms)


def start_earlier(scene: Scene) -> None:
    """A life by an earlier release, which may refuse what it does not know."""
    store, how, release = scene.store, drawn_life(scene.dice), earlier_release()
    assert release is not None, "drawn only where there is one"
    store.tell(f"a life by the release {EARLIER}: {how}")
    refusal = live(store, scene.clients, {"store": {"journal_bytes": 16 << 10}}, how, release)
    if refusal is None or not any(word in refusal.line for word in OF_RELEASES):
        store.expect_reason(refusal)


@cache
def earlier_release() -> Path | None:
    """The sources of an earlier release, taken from the history; None where there is none."""
    command = ["git", "archive", EARLIER]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        return None
    directory = Path(tempfile.mkdtemp(prefix="leveret-release-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


STEPS = [
    Step("a life", 10, live_on),
    Step("a life with another setting", 6, start_otherwise),
    Step("a start with another setting", 6, start_alone),
    Step("a start that accepts a loss", 2, accept_by_setting, may_accept),
    # It takes many a harmed file as it is.
    Step("an earlier release", 3, start_earlier, lambda store: not store.harms and earlier_release() is not None),
]
