"""A second place: lives that are shipped to one, what is restored from it, and a standby that takes over.

The place is beside the small disk. It has what was said until `leveret ship --off`, which ends it: so its pieces are a
copy of one moment, as a backup is.
"""

from __future__ import annotations

import random
import shutil
import time

from broker.cli.catalogue import TOP as VERBS
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.standby_process import StandbyProcess
from harness.waiting import eventually, pass_by
from tests.durability.operators.broker_lives import drawn_settings, live, shown
from tests.durability.operators.copies_put_over import has_room, restored_instead, turned
from tests.durability.operators.operated_store import Keepsake, OperatedStore, chance
from tests.durability.operators.operator_step import Scene, Step
from tests.durability.operators.other_starts import drawn_life
from tests.durability.operators.step_record import Cut

SECONDS = 60.0
CUT_CHANCE = 0.4
RUNS_CHANCE = 0.5
"""Probability that a standby runs when it is promoted."""
KILLS_MAX = 2
PAUSE_SECONDS_MAX = 0.5


def life_that_is_shipped(scene: Scene) -> None:
    """A life, in the midst of which all that there is gets to a second place."""
    store, settings = scene.store, drawn_settings(scene.dice)
    place = store.home / f"place-{store.number()}"
    place.mkdir()

    def midway(process: BrokerProcess) -> None:
        _command(store, "ship", "--to", str(place), "--data-dir", str(store.data))
        eventually(lambda: _shipped(process), "all to be shipped", seconds=SECONDS)
        _command(store, "ship", "--off", "--data-dir", str(store.data))
        store.places.append(Keepsake(place, store.history.copy(), False))

    how = drawn_life(scene.dice)._replace(fills=None, cut=None, midway=midway)
    how = how._replace(steps=max(how.steps, 1))
    store.tell(f"a life with {shown(settings)}, in the midst of which it is shipped to {place.name}: {how}")
    store.expect_reason(live(store, scene.clients, settings, how))


def _shipped(process: BrokerProcess) -> bool:
    state = process.tell("status")["ship"]
    return bool(state["bases"]) and not state["lag_bytes"]


def restore_from_place(scene: Scene) -> None:
    """`leveret restore --from`, perhaps cut short: then what was there before is there, or what the place has."""
    store, keepsake = scene.store, scene.dice.choice(scene.store.places)
    cut = Cut.drawn(scene.dice) if chance(scene.dice, CUT_CHANCE) else None
    store.tell(f"leveret restore --from {keepsake.path.name} --replace{f'; {cut}' if cut else ''}")
    restored_instead(store, keepsake, ("restore", "--from", str(keepsake.path), "--replace"), cut)


def standby_promoted(scene: Scene) -> None:
    """A standby follows a place, is killed now and then, and is promoted; its directory is the broker's then."""
    store, dice, keepsake = scene.store, scene.dice, scene.dice.choice(scene.store.places)
    standby = StandbyProcess(store.home / f"standby-{store.number()}", environment=dict(store.environment))
    standby.place = str(keepsake.path)
    kills, runs = dice.randint(0, KILLS_MAX), chance(dice, RUNS_CHANCE)
    store.tell(
        f"a standby of {keepsake.path.name}, {kills} times killed, promoted while it {'runs' if runs else 'does not'}"
    )
    try:
        _follow(standby, kills, dice)
        if not runs:
            standby.kill()
        _command(store, "promote", "--data-dir", str(standby.data_dir))
        if runs:
            standby.await_promoted()
            standby.stop()
    finally:
        if standby.running:
            standby.kill()
    shutil.rmtree(store.data)
    shutil.move(standby.data_dir, store.data)
    turned(store, keepsake, "a standby's directory is in the place of the broker's")
    store.offsets.clear()  # with the old directory gone, only the time tells one restore from another


def _follow(standby: StandbyProcess, kills: int, dice: random.Random) -> None:
    """Start a standby, again after each kill at any moment, and return when it follows."""
    standby.start()
    for _ in range(kills):
        pass_by(time.monotonic() + dice.uniform(0, PAUSE_SECONDS_MAX))
        standby.kill()
        standby.start()
    eventually(lambda: standby.tell("status")["standby"]["stage"] == "following", "a base to be read", seconds=SECONDS)


def _command(store: OperatedStore, *words: str) -> None:
    """Run a command that has no reason to be refused. Raises BrokenPromiseError."""
    done = run_text(*words, environment=dict(store.environment))
    if done.returncode:
        raise store.broken(f"`leveret {words[0]}` is refused: {done.stderr[-2000:]}")


def has_place(store: OperatedStore) -> bool:
    """Something was shipped, and there is room to restore it."""
    return bool(store.places) and has_room(store) and "follow" in VERBS


STEPS = [
    Step("a life that is shipped", 6, life_that_is_shipped, lambda store: has_room(store) and not store.harms),
    Step("restore from a place", 10, restore_from_place, has_place),
    Step("a standby promoted", 5, standby_promoted, has_place),
]
