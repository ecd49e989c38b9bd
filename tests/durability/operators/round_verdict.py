"""The end of a round: with room on the disk a broker starts and everything promised is there, or it says why not.

Where the start is refused, the line names a file and what was done to it; then the file is put back, and everything is
there, or the loss is accepted, and everything but the last batches is.
"""

from __future__ import annotations

import random
import shutil

from broker.cli.usage.verb_table import VERBS
from tests.durability.crash.worker import Worker
from tests.durability.operators.broker_lives import Live, live
from tests.durability.operators.operated_store import OperatedStore, Refusal, chance, copy_directory

USUAL = {"store": {"journal_bytes": 16 << 10}}
SHOWN = 4
"""How many problems a failure names."""


def judge(store: OperatedStore, dice: random.Random) -> bool:
    """Whether the start was refused, and mended. Raises BrokenPromiseError."""
    store.empty()
    stops, accepts = chance(dice, 0.5), chance(dice, 0.5)
    store.tell(f"a start with room on the disk, then {'a stop' if stops else 'a kill'}")
    refusal = _start(store, stops)
    if refusal is not None:
        store.expect_reason(refusal)
        _mend(store, accepts)
        again = _start(store, stops)
        if again is not None:
            raise store.broken(f"mended, and refused again: {again.line or again.output}")
    _expect_promised(store)
    return refusal is not None


def _start(store: OperatedStore, stops: bool) -> Refusal | None:
    return live(store, None, USUAL, Live(0, stops))


def _mend(store: OperatedStore, accepts: bool) -> None:
    """Put back what was harmed, the last first; or give up what the journal had, where that is what is harmed."""
    undos = [harm.undo for harm in store.harms]
    can_accept = "recover" in VERBS and all(harm.of_journal or harm.undo is None for harm in store.harms)
    if can_accept and (accepts or None in undos):
        store.tell("leveret recover --accept-loss")
        for history in store.histories:
            history.cut_short = any(harm.of_journal for harm in store.harms)
        refusal = store.command(("recover", "--accept-loss"))
        if refusal is not None:
            raise store.broken(f"the loss is not accepted: {refusal.line or refusal.output}")
        return
    if None in undos:
        raise store.broken("there is no way on")
    store.tell("what was harmed is put back")
    for undo in reversed(undos):
        if undo is not None:
            undo()
    store.harms.clear()


def _expect_promised(store: OperatedStore) -> None:
    worker = Worker()
    left = store.home / "judged"
    copy_directory(store.root, left)  # as the broker left it: to look at it changes it
    try:
        outcome = worker.recover(store.root)
    finally:
        worker.close()
    found = outcome.found
    problems = [[outcome.problem]] if found is None else [history.problems(found) for history in store.histories]
    if not any(not some for some in problems):
        raise store.broken("\n".join(problem for some in problems for problem in some[:SHOWN]))
    shutil.rmtree(left)
