"""Copies of a data directory, by `leveret backup`, by a snapshot and by hand, and what is put in its place.

A copy by hand of a running broker's directory is made while the broker does nothing: what is copied file by file while
it writes is of no moment, and nothing is promised of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker.admin.protocol import AdministrationError
from broker.cli.catalogue import TOP as VERBS
from harness.brokers.broker_process import BrokerProcess
from tests.durability.ledgers.topology import LOG
from tests.durability.operators.broker_lives import Live, Turn, copy_of_running, drawn_settings, live, shown
from tests.durability.operators.operated_store import Harm, Keepsake, OperatedStore, Refusal, chance, copy_directory
from tests.durability.operators.operator_step import Scene, Step
from tests.durability.operators.other_starts import drawn_life
from tests.durability.operators.step_record import Cut, StepRecord

OF_OTHER_MOMENTS = ("data.mdb", "journal", "definitions.sqlite", "backup", "restore")
"""Words of which a refusal may have one if files of two moments lie together."""
TESTING: dict[str, dict[str, Any]] = {"testing": {"enabled": True}, "events": {"enabled": False}}
CUT_CHANCE = 0.4


def backup_of_stopped(scene: Scene) -> None:
    """`leveret backup` where no broker runs, perhaps cut short."""
    store, target = scene.store, scene.store.home / f"backup-{scene.store.number()}"
    cut = Cut.drawn(scene.dice) if chance(scene.dice, CUT_CHANCE) else None
    store.tell(f"leveret backup {target.name}{f'; {cut}' if cut else ''}")
    refusal = store.command(("backup", str(target)), cut)
    if refusal is None:
        store.settle()
        store.opened()
        store.keep(target, whole=False)
    store.expect_reason(refusal)


def copy_of_stopped(scene: Scene) -> None:
    """`cp -a` of the directory."""
    store, target = scene.store, scene.store.home / f"copy-{scene.store.number()}"
    store.tell(f"cp -a data {target.name}")
    copy_directory(store.data, target)
    if not store.harms:
        store.keep(target, whole=True)


def life_with_copy(scene: Scene) -> None:
    """A life, in the midst of which the broker's directory is copied: by a command, by a snapshot, by hand."""
    store, dice = scene.store, scene.dice
    kind = dice.choice(("backup", "backup", "snapshot", "copy"))
    settings = {**drawn_settings(dice), **(TESTING if kind == "snapshot" else {})}
    target = store.home / f"{kind}-{store.number()}"

    def midway(process: BrokerProcess) -> None:
        if kind == "copy":
            copy_of_running(store, process, target)
        elif not _copied_by_broker(store, process, kind, target):
            return
        store.keep(target, whole=kind == "copy")

    how = drawn_life(dice)._replace(fills=None, midway=midway)
    how = how._replace(steps=max(how.steps, 1))
    store.tell(f"a life with {shown(settings)}, in the midst of which {target.name} is made: {how}")
    store.expect_reason(live(store, scene.clients, settings, how))


def _copied_by_broker(store: OperatedStore, process: BrokerProcess, kind: str, target: Path) -> bool:
    """Have a running broker make a copy. False where its disk is full, and it says so."""
    try:
        if kind == "backup":
            process.tell("backup", directory=str(target))
        else:
            saved = process.tell("testing", order="snapshots/save", arguments={"name": target.name})
            copy_directory(Path(saved["directory"]), target)
    except AdministrationError as error:
        store.expect_reason(Refusal(str(error)))
        return False
    return True


def life_with_restore(scene: Scene) -> None:
    """A life that begins with what a backup holds: a restore by an order of tests."""
    store, dice = scene.store, scene.dice
    keepsake = dice.choice(_backups(store))

    def first(process: BrokerProcess, record: StepRecord) -> Turn:
        begun = len(record.events)
        process.tell("testing", order="restore", arguments={"directory": str(keepsake.path)})
        return Turn(begun, len(record.events), keepsake.history)

    settings = {**drawn_settings(dice), **TESTING}
    how: Live = drawn_life(dice)._replace(fills=None, first=first)
    store.tell(f"a life with {shown(settings)} that begins with a restore of {keepsake.path.name}: {how}")
    store.offsets.clear()  # an order of tests is no restore: nobody but a test gives it
    store.expect_reason(live(store, scene.clients, settings, how))
    store.offsets.clear()


def put_over(scene: Scene) -> None:
    """`cp -a backup/. data/`: what the backup has not stays as it is."""
    store, keepsake = scene.store, scene.dice.choice(scene.store.keepsakes)
    store.tell(f"cp -a {keepsake.path.name}/. data/")
    for name in ("messages/data.mdb", "definitions.sqlite"):
        (store.data / name).unlink(missing_ok=True)
    copy_directory(keepsake.path, store.data)
    turned(store, keepsake, "a copy was put over the directory")


def put_in_place(scene: Scene) -> None:
    """The directory is removed, and a copy has its name."""
    store, keepsake = scene.store, scene.dice.choice(scene.store.keepsakes)
    store.tell(f"rm -r data; cp -a {keepsake.path.name} data")
    shutil.rmtree(store.data)
    copy_directory(keepsake.path, store.data)
    turned(store, keepsake, "a copy is in the place of the directory")
    store.offsets.clear()  # with the directory gone, only the time tells one restore of a backup from another


def turned(store: OperatedStore, keepsake: Keepsake, what: str) -> None:
    """The store is what the copy was of: a backup is taken as it is, of another copy the start may know that it is old.

    Offsets of a stream that is in a backup go on above all that the old timeline has given out.
    """
    history = keepsake.history.copy()
    history.begin_life()
    store.histories = [history]
    store.harms.clear()
    if keepsake.whole:
        store.harms.append(Harm(what, OF_OTHER_MOMENTS, None, of_journal=True))
    if keepsake.whole or not history.must_have(LOG):
        store.offsets.clear()


def restore(scene: Scene) -> None:
    """`leveret restore`, perhaps cut short: then what was there before is there, or what the backup has."""
    store, keepsake = scene.store, scene.dice.choice(_backups(scene.store))
    cut = Cut.drawn(scene.dice) if chance(scene.dice, CUT_CHANCE) else None
    store.tell(f"leveret restore {keepsake.path.name} --replace{f'; {cut}' if cut else ''}")
    restored_instead(store, keepsake, ("restore", str(keepsake.path), "--replace"), cut)


def restored_instead(store: OperatedStore, keepsake: Keepsake, words: Sequence[str], cut: Cut | None) -> None:
    """Run a command that restores what a copy has. Cut short, it leaves that or what was there before."""
    before, harms = store.histories, list(store.harms)
    refusal = store.command(words, cut)
    if refusal is None:
        turned(store, keepsake, "a backup was restored")
    elif refusal.cut:
        turned(store, keepsake, "a restore was cut short")
        store.histories += before
        store.harms += harms
    store.expect_reason(refusal)


def move(scene: Scene) -> None:
    """The directory is moved, by `mv` or by `cp -a`."""
    store, by_hand = scene.store, scene.dice.choice(("mv", "cp -a"))
    target = store.disk.directory / f"root-{store.number()}"
    store.tell(f"{by_hand} data elsewhere")
    if by_hand == "mv":
        store.root.rename(target)
    else:
        copy_directory(store.root, target)
    store.root, store.data = target, target / "data"


def _backups(store: OperatedStore) -> Sequence[Keepsake]:
    return [keepsake for keepsake in store.keepsakes if not keepsake.whole]


def has_backup(store: OperatedStore) -> bool:
    """There is a backup."""
    return bool(_backups(store))


def has_copy(store: OperatedStore) -> bool:
    """There is a copy of any kind, and room to put it anywhere."""
    return bool(store.keepsakes) and has_room(store)


def has_room(store: OperatedStore) -> bool:
    """The disk is not full: to copy onto a full one is refused by the system, and tells nothing."""
    return not store.full


STEPS = [
    Step("backup", 3, backup_of_stopped),
    Step("copy", 2, copy_of_stopped),
    Step("a life with a copy", 6, life_with_copy),
    Step("a life with a restore", 2, life_with_restore, lambda store: has_backup(store) and has_room(store)),
    Step("a copy put over", 12, put_over, has_copy),
    Step("a copy in place", 5, put_in_place, has_copy),
    Step("restore", 12, restore, lambda store: has_backup(store) and "restore" in VERBS),
    Step("move", 2, move, has_room),
]
