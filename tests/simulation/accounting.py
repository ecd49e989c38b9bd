"""Contents that must be there after a process has ended, and sums that hold at any time."""

from __future__ import annotations

from collections.abc import Iterable

from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from tests.simulation.copies import EXPIRY_AFTER_START, TOLERANCE, Broken, Copy, Group, Place
from tests.simulation.promises import Promises
from tests.simulation.world.topology_of_seed import DEAD_LETTERS

EVERYTHING = 1 << 62


def survive(promises: Promises, found: dict[int, str], committed: int = EVERYTHING) -> None:
    """A broker has ended and started again with these queues. `committed` is the last batch that was on disk.

    Raises Broken for a queue that should be there and is not, or the reverse.
    """
    for place in list(promises.places.values()):
        if _is_back(place, place.number in found):
            _begin_again(promises, place)
        else:
            _forget(promises, place)
    copies = [copy for place in promises.places.values() for copy in (*place.copies.values(), *place.gone.values())]
    for group in _groups(copies):
        doubted, group.open = group.open, group.open or group.batch > committed
        group.open &= not any(copy.confirmed for copy in group.came)
        owed = group.owed if doubted else []  # in doubt since the crash before
        group.over |= group.vague and any(copy.fate for copy in group.came)
        group.owed = [] if group.over else [copy for copy in group.left if copy in owed or _on_disk(copy, committed)]
        group.batch = 0
    for copy in copies:
        _survive(copy, committed, promises)
    revived = [copy for copy in copies if not copy.fate and copy.place.recipe.dead_letters_to]
    promises.mortal = list(dict.fromkeys([*promises.mortal, *revived]))
    for copy in promises.mortal:
        copy.shaky |= copy.may_have_gone(promises.last)
    promises.named = {found[place.number]: place for place in promises.places.values()}
    for place in promises.places.values():
        place.make_room()


def _is_back(place: Place, back: bool) -> bool:
    if not place.recipe.durable:
        return False
    if back and place.ended:
        raise Broken(f"queue {place.recipe.name} is back, although its deletion was answered")
    if not back and place.sealed and not place.ending:
        raise Broken(f"queue {place.recipe.name} is lost, although its declaration was answered")
    return back


def _forget(promises: Promises, place: Place) -> None:
    del promises.places[place.number]
    promises.unbound(place.number)
    if place.recipe.durable:
        promises.dead_ids.add(place.number)
    for copy in list(place.copies.values()):
        copy.end("deleted", 0)


def _begin_again(promises: Promises, place: Place) -> None:
    place.there, place.sealed, place.ending = True, True, False
    place.used = promises.now
    place.takers.clear()
    place.former.clear()
    place.asked.clear()
    place.had_takers = place.said_empty = False


def _groups(copies: Iterable[Copy]) -> list[Group]:
    groups = {id(group): group for copy in copies for group in (copy.group, *copy.groups_left) if group is not None}
    return list(groups.values())


def _on_disk(copy: Copy, committed: int) -> bool:
    """It had reached the disk for certain, whatever became of it there."""
    return copy.confirmed or (copy.sure and copy.came <= committed)


def _survive(copy: Copy, committed: int, promises: Promises) -> None:
    if not copy.kept:
        if not copy.fate:
            copy.end("ended with the process", 0)
        if copy.is_dead_letter:
            copy.place.gone.pop(copy.key, None)  # its message may be back, and die again
        return
    revived = bool(copy.fate)
    if copy.fate:
        if copy.left <= committed:
            copy.left = 0
            return
        copy.was_sure = _on_disk(copy, committed)
        copy.revive()
    elif copy.came > committed:
        copy.sure = copy.confirmed
    copy.came = 0
    if copy.times_out:
        copy.flag = True if 0 <= copy.marked <= committed else None
        copy.marked = 0 if copy.flag else -1
    limit = copy.place.recipe.delivery_limit
    if limit and copy.times_out > limit:
        copy.shaky = True
    copy.out = None
    copy.shaky |= copy.may_have_gone(promises.last)
    if not copy.times_out and (revived or copy.shaky) and any(copy.place.dead_letter_queues):
        copy.flag = None  # its end waited for room with its dead letter, and the mark of those behind it did not
    copy.since = promises.event
    copy.waits |= copy.released > committed
    copy.released = 0
    if copy.not_before <= promises.last + TOLERANCE:
        copy.not_before = 0  # it may be in its queue already, whatever the clock says now
    if copy.ready_by:
        copy.ready_by = max(copy.ready_by, promises.undisturbed_since + EXPIRY_AFTER_START)


def audit(promises: Promises, queues: dict[int, Queue]) -> None:
    """Count: each queue holds what it must, and no more than it may; and nobody waits for what is there."""
    now = promises.now
    promises.mortal = [copy for copy in promises.mortal if not copy.fate or copy.fate in ("purged", "deleted")]
    for number, queue in queues.items():
        place = promises.places.get(number)
        if place is None or place.blurred or place.recipe.kind == "stream":
            continue
        low, high = place.bounds(now, promises.undisturbed_since)
        if place.recipe.name == DEAD_LETTERS:
            high += sum(copy.may_have_gone(now) for copy in promises.mortal)
        clears = isinstance(queue, OrderedQueue) and queue.background_work.working  # it goes on, once the disk has room
        out = len([copy for copy in place.copies.values() if copy.out is not None])
        waiting = max(0, queue.unacked - out) if clears else 0  # came back, and is not in its place yet
        if not low <= queue.ready + waiting or (queue.ready > high and not clears):
            raise Broken(
                f"queue {queue.name} holds {queue.ready} messages, not {low} to {high}{_which(promises, place)}"
            )
        if queue.unacked != out + waiting:
            raise Broken(f"queue {queue.name} has {queue.unacked} messages out, not {out}")
        recipe = place.recipe
        grown_up = now > promises.undisturbed_since + EXPIRY_AFTER_START
        if recipe.limit and not recipe.overflow and grown_up and queue.ready > recipe.limit and not clears:
            raise Broken(f"queue {queue.name} holds {queue.ready} messages, its limit is {recipe.limit}")
        if not clears:
            _look_for_the_idle(promises, place)
        _look_at_the_expiry(promises, place)


def _which(promises: Promises, place: Place) -> str:
    certain = [copy.key for copy in place.copies.values() if copy.certainly_ready(promises.now)]
    possible = [copy.key for copy in place.copies.values() if copy.possibly_ready(promises.now)]
    return f"; certain {certain[:8]}, possible {possible[:8]}"


def _look_for_the_idle(promises: Promises, place: Place) -> None:
    takers = place.takers[:1] if place.recipe.single_active else place.takers
    if not any(taker.hungry for taker in takers):
        return
    if place.recipe.single_active and any(copy.out not in (None, takers[0].channel) for copy in place.copies.values()):
        return  # it waits for its predecessor
    for copy in place.copies.values():
        if copy.certainly_ready(promises.now) and copy.since < promises.event:
            raise Broken(f"{promises.tell(copy)} waits, although a consumer has credit")


def _look_at_the_expiry(promises: Promises, place: Place) -> None:
    expiry = place.recipe.expires
    due = max(place.used + expiry, promises.resumed_at)
    if expiry and not place.takers and due < promises.now - 10 * TOLERANCE:
        raise Broken(f"queue {place.recipe.name} outlives its expiry")


def nothing_is_missing(promises: Promises) -> None:
    """Everything has been taken out of all queues: whatever was promised has been seen."""
    for copy in promises.mortal:
        if (
            copy.sure
            and copy.publication.persistent
            and not copy.fate
            and copy.place.there
            and copy.place.dead_letter_queues == {DEAD_LETTERS}
        ):
            raise Broken(f"{promises.tell(copy)} is gone, and no dead letter of it is there")
    for place in promises.places.values():
        for copy in place.copies.values():
            for group in copy.groups_left:
                if group.open and copy in group.owed and not copy.may_have_gone(promises.now) and place.there:
                    raise Broken(f"{promises.tell(copy)} is neither there nor what came in its place")
