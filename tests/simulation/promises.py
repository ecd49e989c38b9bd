"""The promises, as far as a client can hold a broker to them (docs/durability.md, docs/protocol.md).

Told of everything that clients have done when the broker has taken it in, and of everything that the broker says. It
knows nothing of how the broker works, save two things that it looks up in memory because nobody sends them: which
queues exist, and which batch is gathering. Changes of a batch on disk must outlast a crash; changes of another may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from tests.simulation.copies import TOLERANCE, Broken, Copy, Group, Holder, Key, Place, Publication, Taker, passed_over
from tests.simulation.policy_rules import Policy, holds, in_force
from tests.simulation.stream_offsets import StreamPromises
from tests.simulation.world.topology_of_seed import Recipe
from tests.simulation.world.virtual_time import START_SECONDS, Times

NEVER = 1 << 60
"""A batch that never comes."""

RELEASE = 200
"""Milliseconds within which a delayed message that is due must be in its queues, unless the disk is far behind."""

RELEASE_AFTER_FULL = 1000 + RELEASE
"""The same from the moment on at which a full disk has room again: it is looked at every second."""


class Promises:
    """Promises of the broker to its clients."""

    def __init__(self, times: Times, recipes: dict[str, Recipe], policies: dict[str, Policy]) -> None:
        self.times = times
        self.recipes = recipes
        self._policies = policies
        self._there: frozenset[str] = frozenset()
        self.told: dict[str, bool] = dict.fromkeys(policies, False)
        """True or False for a policy that is certainly set or not: somebody was told so."""
        self.places: dict[int, Place] = {}
        self.named: dict[str, Place] = {}
        self.dead_ids: set[int] = set()
        """Those of durable queues that were gone at a start."""
        self.publications: dict[int, Publication] = {}
        self.event = 0
        self.alarm = 0
        """Number of the alarm that is raised; 0: none."""
        self.batch: Callable[[], int] = int
        self.targets: Callable[[str, str], list[Place]] = lambda exchange, key: []
        """The queues that a publish reaches now."""
        self.short: Callable[[], bool] = bool
        """Publishers have to wait now."""
        self.behind: Callable[[], bool] = bool
        """The disk is so far behind that even little has to wait."""
        self._waiting: list[Copy] = []
        self.counts: Counter[str] = Counter()
        self.stream = StreamPromises()
        self.mortal: list[Copy] = []
        """Those that may become dead letters by themselves, and have not been seen to."""
        self.bound: set[tuple[int, str, str]] = set()
        """Bindings that somebody was told of: the queue's number, the exchange, the key."""
        self.served: dict[tuple[Place, Taker], None] = {}
        """The consumers that were given something in this event."""
        self._taken: dict[Place, list[Copy]] = {}
        self._refreshed: dict[int, str] = {}
        self.begin()

    # Time

    def begin(self) -> None:
        """A broker starts: from now on it goes by the wall clock of this moment, moved on by the monotonic one."""
        self.last = self.now if self.event else 0
        """The time at which the one before it has ended."""
        self._full_at = self.resumed_at = 0
        self._start = self.times.now
        self._start_wall = int(START_SECONDS * 1000) + self.times.now + self.times.wall_ahead

    @property
    def now(self) -> int:
        """The broker's time, in milliseconds since the epoch."""
        return self._start_wall + self.times.now - self._start

    @property
    def undisturbed_since(self) -> int:
        """Start of its run, or of its last undisturbed stretch, on its own clock."""
        return max(self._start_wall, self._full_at)

    def go_on(self) -> None:
        """The process was paused, and goes on."""
        self.resumed_at = self.now
        self.disturbed()

    def disturbed(self) -> None:
        """A batch does not fit now, and what writes waits too; or the process was paused."""
        self._full_at = self.now
        for place in self.places.values():
            for copy in place.copies.values():
                if copy.ready_by:
                    copy.ready_by = max(copy.ready_by, self.now + RELEASE_AFTER_FULL)

    def disk_is_behind(self) -> None:
        """Dead letters, and what quorum queues get back, wait for the disk, which has enough to do now."""
        for copy in self._still_waiting():
            copy.ready_by = self.now + RELEASE

    def disk_is_far_behind(self) -> None:
        """Delayed messages that are due wait too."""
        for copy in self.copies():
            if copy.waits and copy.publication.delay and copy.ready_by:
                copy.ready_by = max(copy.ready_by, self.now + RELEASE)

    def _still_waiting(self) -> list[Copy]:
        self._waiting = [copy for copy in self._waiting if copy.waits and not copy.fate]
        return self._waiting

    def _wait_for_the_disk(self, copy: Copy) -> None:
        """A copy that comes into its queue is written, and waits while the disk is full or far behind, or others
        wait."""
        full = self.behind() or (self._full_at and self.now <= self._full_at + TOLERANCE)
        if full or any(other.line is copy.line and self.now <= other.ready_by for other in self._still_waiting()):
            self._waiting.append(copy)
            copy.waits, copy.ready_by = True, self.now + RELEASE
            if copy.is_dead_letter:  # of what comes back, nothing but the return is still to be written
                self._came_with(copy, NEVER)

    # Queues

    def look(self, found: dict[int, str]) -> None:
        """Take note of the queues that exist, their names by their numbers. Raises Broken if one may not have gone."""
        if found == self._refreshed:
            return
        self._refreshed = dict(found)
        for number, place in self.places.items():
            if place.there and number not in found:
                self._gone(place)
        for number, name in found.items():
            place = self.places.get(number) or self._new(number, name)
            if not place.there:
                raise Broken(f"queue {name} is back without a crash")
            self.named[name] = place

    def _new(self, number: int, name: str) -> Place:
        if number in self.dead_ids:
            raise Broken(f"queue {name} has the id of a queue that was deleted")
        place = self.places[number] = Place(number, self.recipes[name], self.now)
        self._apply(place)
        return place

    def look_at_policies(self, found: frozenset[str]) -> None:
        """These policies hold now."""
        if found != self._there:
            self._there = found
            for place in self.places.values():
                self._apply(place)

    def _apply(self, place: Place) -> None:
        """Hold a queue to account by its policies: for what comes from now on, and for how many it may hold."""
        forces = in_force([self._policies[name] for name in self._there], place.declared)
        if forces == place.forces:
            return
        place.forces, place.recipe, place.used = forces, holds(place.declared, forces), self.now
        place.was_limited |= bool(place.recipe.limit)
        place.dead_letter_queues.add(place.recipe.dead_letters_to)
        if place.recipe.dead_letters_to:
            self.mortal = list(dict.fromkeys([*self.mortal, *place.copies.values()]))
        for copy in place.copies.values():
            if copy.publication.held:  # by which rule it will be handled nobody knows
                copy.shaky, copy.expires_at, copy.expires_by = True, self.now - TOLERANCE, 0
        place.make_room()

    def _gone(self, place: Place) -> None:
        recipe, taken = place.recipe, any(not taker.ended for taker in place.takers)
        unused = recipe.expires and self.now + TOLERANCE >= place.used + recipe.expires and not taken
        abandoned = recipe.auto_delete and place.had_takers and not taken
        if not (place.ending or unused or abandoned):
            raise Broken(f"queue {recipe.name} is gone and nobody has asked for it")
        place.there, place.ending = False, True
        if self.named.get(recipe.name) is place:
            del self.named[recipe.name]

    def copies(self) -> Iterator[Copy]:
        """Everything that is, or may be, in a queue."""
        return chain.from_iterable(place.copies.values() for place in self.places.values())

    def unbound(self, number: int) -> None:
        """A queue is gone, or going: nothing leads to it."""
        self.bound = {binding for binding in self.bound if binding[0] != number}

    # Publishing

    def published(self, publication: Publication, targets: Iterable[Place], group: Group | None = None) -> None:
        """The broker has taken a publish in; it is for these queues."""
        self.publications[publication.number] = publication
        self.counts["published"] += 1
        publication.alarm, publication.taken_at = self.alarm, self.times.now
        group = group or Group(self.batch())
        for place in targets:
            if place.recipe.kind == "stream":
                self.stream.sent[publication.number] = publication
                continue
            copy = self._place(publication, place)
            copy.sure = not publication.held and place.recipe.overflow == ""
            if place.recipe.overflow == "" and not publication.held and copy.kept:
                copy.group = group
                group.came.append(copy)
            place.make_room()

    def _place(self, publication: Publication, place: Place) -> Copy:
        copy = Copy(publication, place, self.batch(), self.event)
        publication.copies.append(copy)
        self._set_times(copy)
        if place.recipe.dead_letters_to:
            self.mortal.append(copy)
        return copy

    def _set_times(self, copy: Copy) -> None:
        publication, recipe, now = copy.publication, copy.place.recipe, self.now
        lives = [time for time in (publication.expiration, recipe.ttl) if time]
        if publication.delay:
            copy.waits = True
            copy.not_before = now + publication.delay - TOLERANCE
            copy.ready_by = 0 if publication.held else now + publication.delay + RELEASE
        elif lives:
            copy.expires_at = now + min(lives) - TOLERANCE
            copy.expires_by = 0 if publication.held else now + min(lives) + TOLERANCE

    def released(self, publication: Publication) -> None:
        """A publish that had to wait has been handled by now."""
        if not publication.held:
            return
        publication.held = False
        targets = self.targets(*publication.target)
        for copy in list(publication.copies):
            if copy.place not in targets and not copy.times_out:
                copy.astray = True
            elif not copy.fate:
                copy.sure = copy.sure or (copy.place.recipe.overflow == "" and not copy.astray)
                copy.came, copy.since = self.batch(), self.event
        self.strayed(publication, targets)

    def loosened(self, publication: Publication) -> None:
        """A publish that had to wait need not wait any more: it may have been handled, or will be."""
        self.strayed(publication, self.targets(*publication.target))

    def strayed(self, publication: Publication, targets: Iterable[Place]) -> None:
        """A publish may have reached these queues, because it was handled at a moment that nobody knows."""
        for place in targets:
            if place.recipe.kind == "stream":
                self.stream.sent[publication.number] = publication
            elif (publication.number, "") not in place.copies and (publication.number, "") not in place.gone:
                copy = self._place(publication, place)
                copy.sure, copy.astray, copy.unplaced = False, True, True
                place.make_room()

    def confirmed(self, publication: Publication) -> None:
        """The publisher has been told that its message is safe."""
        self.counts["confirmed"] += 1
        self._not_during_alarm(publication)
        self.released(publication)
        if publication.number in self.stream.sent:
            self.stream.confirmed.add(publication.number)
        for copy in publication.copies:
            if copy.astray and not copy.times_out:
                continue
            copy.confirmed = True
            if not copy.fate and not copy.sure:
                copy.sure = True

    def refused(self, publication: Publication) -> None:
        """The publisher has been told that a queue did not take its message."""
        self.counts["refused"] += 1
        self._not_during_alarm(publication)
        self.released(publication)
        closed = [copy for copy in publication.copies if copy.place.recipe.overflow]
        if not closed:
            raise Broken(f"message {publication.number} is refused, by no queue that may")
        for copy in closed:
            if copy.times_out:
                raise Broken(f"message {publication.number} is refused and was delivered")
            copy.end("refused", 0)

    def _not_during_alarm(self, publication: Publication) -> None:
        if publication.alarm and publication.alarm == self.alarm and self.short():
            raise Broken(f"message {publication.number} got past an alarm")

    # Delivering

    def delivered(
        self, place: Place, body: bytes, origin: str, reason: str, *, redelivered: bool, late: bool, channel: Holder
    ) -> Copy:
        """The broker has sent a message to somebody who has to acknowledge it, or not."""
        self.counts["delivered"] += 1
        copy = self._copy(place, self._publication(body), origin, reason)
        if copy.out is not None:  # it came back with all that its channel had, before anybody heard that this is closed
            place.make_room(copy.out)
        self._check_time(copy, late=late)
        if copy.flag is not None and copy.flag != redelivered and not place.blurred:
            raise Broken(f"{self.tell(copy)} comes with redelivered {redelivered}, out {copy.times_out} times before")
        copy.sure, copy.shaky = True, False
        if copy.publication.held:
            copy.came = self.batch()  # it was handled at some moment until now
        if copy.waits:
            copy.waits, copy.released = False, self.batch()
        self._seen_anew(copy, reason)
        for group in copy.groups_left:
            group.happened(happened=False)
        copy.groups_left = []
        copy.times_out += 1
        if copy.times_out == 1 or copy.marked < 0:
            copy.marked = self.batch()
        copy.flag = True
        copy.out = channel
        if not late:
            self._taken.setdefault(place, []).append(copy)
        return copy

    def _seen_anew(self, copy: Copy, reason: str) -> None:
        """A copy has been seen, and with it that what came or left in the same write did so.

        A dead letter that a crash had left in doubt may be another one: its message came back, and has died again by
        itself since. Rejected it has not been again, nobody has said so. One that had to wait for the disk has come by
        now.
        """
        again = copy.is_dead_letter and copy.group is not None and copy.group.open and reason != "rejected"
        if copy.group is not None:
            copy.group.happened(happened=True)
        if again or copy.came == NEVER:
            self._came_with(copy, self.batch())

    def _came_with(self, dead_letter: Copy, batch: int) -> None:
        """A dead letter is in this batch, at the latest, or in one that is not known, and the end of its message is."""
        dead_letter.came = batch
        if dead_letter.group is not None:
            dead_letter.group.batch, dead_letter.group.vague = batch, True
        if dead_letter.origin is not None:
            dead_letter.origin.left = batch

    def _publication(self, body: bytes) -> Publication:
        number = body.partition(b":")[0]
        publication = self.publications.get(int(number)) if number.isdigit() else None
        if publication is None:
            raise Broken(f"a message that nobody has published: {body[:40]!r}")
        if publication.body != body:
            raise Broken(f"message {publication.number} has another body")
        self._not_during_alarm(publication)
        return publication

    def _copy(self, place: Place, publication: Publication, origin: str, reason: str) -> Copy:
        key: Key = (publication.number, origin)
        copy = place.copies.get(key)
        gone = place.gone.get(key)
        if copy is None and gone is not None:
            raise Broken(f"{self.tell(gone)} is delivered again; it was gone: {gone.fate}")
        if copy is None and origin:
            copy = self._dead_letter(place, publication, origin, reason)
        elif copy is None and publication.held:
            copy = self._place(publication, place)
        if copy is None:
            raise Broken(f"message {publication.number} is in queue {place.recipe.name}, where nobody has put it")
        if copy.out is not None and not copy.out.late:
            raise Broken(f"{self.tell(copy)} is delivered while it is out")
        return copy

    def was_taken_back(self, place: Place, body: bytes, origin: str, channel: Holder) -> bool:
        """True if a message seen late by a channel is gone, or with another one: the channel has been closed since."""
        key: Key = (self._publication(body).number, origin)
        copy = place.copies.get(key)
        return key in place.gone if copy is None else copy.out not in (None, channel)

    def _dead_letter(self, place: Place, publication: Publication, origin: str, reason: str) -> Copy:
        """A dead letter of a message that has died by itself."""
        dead = next((copy for copy in publication.copies if copy.place.recipe.name == origin), None)
        if dead is None and publication.held and origin in self.named:
            dead = self._place(publication, self.named[origin])  # it was handled by now, and has died at once
        if dead is None or place.recipe.name not in dead.place.dead_letter_queues:
            raise Broken(f"message {publication.number} is a dead letter of queue {origin}, where it never was")
        why = {
            "expired": dead.may_have_gone(self.now),
            "maxlen": dead.place.was_limited,
            "delivery_limit": dead.place.recipe.delivery_limit > 0
            and dead.times_out > dead.place.recipe.delivery_limit,
        }
        if not why.get(reason):
            raise Broken(f"{self.tell(dead)} has died of {reason!r}, too early or for no reason")
        if dead.fate and dead.fate not in ("purged", "deleted"):
            raise Broken(f"{self.tell(dead)} is a dead letter as well; it was gone: {dead.fate}")
        if dead.out is not None and not dead.out.late:
            raise Broken(f"{self.tell(dead)} is a dead letter while it is out")
        dead_letter = Copy(publication, place, self.batch(), self.event, dead)
        dead.end("dead letter: " + reason, self.batch())
        self._tie(dead_letter, dead)
        return dead_letter

    def _tie(self, dead_letter: Copy, dead: Copy) -> None:
        if dead_letter.kept and dead.kept:
            group = Group(self.batch())
            group.came, group.left = [dead_letter], [dead]
            dead_letter.group = group
            dead.groups_left.append(group)

    def _check_time(self, copy: Copy, *, late: bool) -> None:
        if copy.waits and self.now < copy.not_before - TOLERANCE:
            raise Broken(f"{self.tell(copy)} comes {copy.not_before - self.now} ms before its time")
        if not late and 0 < copy.expires_by < self.now - TOLERANCE:
            raise Broken(f"{self.tell(copy)} comes {self.now - copy.expires_by} ms after its time")

    # Settling

    def acked(self, copies: Sequence[Copy], group: Group | None = None) -> None:
        """The broker has taken in that a client is done with messages, or has sent them to one that need not say so."""
        self.counts["settled"] += len(copies)
        for copy in copies:
            copy.end("acknowledged", self._left(copy))
            if group is not None and copy.kept:
                group.left.append(copy)
                copy.groups_left.append(group)

    def certain(self, group: Group | None) -> None:
        """A client has been told that a transaction is on disk: what it acknowledged is gone for good."""
        for copy in group.left if group is not None else ():
            copy.left = copy.left if copy.left == NEVER else 0

    def returned(self, copies: Sequence[Copy]) -> None:
        """Messages have come back, because a client said so or is gone."""
        self.counts["returned"] += len(copies)
        for copy in copies:
            copy.come_back(self.event)
            if copy.place.recipe.kind == "quorum":
                self._wait_for_the_disk(copy)
        for place in {copy.place.number: copy.place for copy in copies}.values():
            place.make_room()

    def _left(self, copy: Copy) -> int:
        """Nothing of a queue that is being deleted goes to disk: should a crash undo that, all of it is back."""
        return self.batch() if copy.place.there else NEVER

    def rejected(self, copies: Sequence[Copy]) -> None:
        """A client does not want messages: they are dead letters now, if their queues have a place for them."""
        self.counts["rejected"] += len(copies)
        for copy in copies:
            copy.end("rejected", self._left(copy))
            dead_letter_queue = self.named.get(copy.place.recipe.dead_letters_to)
            if dead_letter_queue is not None and copy.place.there:
                dead_letter = Copy(copy.publication, dead_letter_queue, self.batch(), self.event, copy)
                self._tie(dead_letter, copy)
                self._wait_for_the_disk(dead_letter)

    def dropped(self, publications: Iterable[Publication]) -> None:
        """A channel has ended, and with it the publishes that had to wait and have not been handled.

        As long as the alarm lasts for which they waited, that is all of them. After it nobody has said how far the
        broker has come.
        """
        for publication in [publication for publication in publications if publication.held]:
            waits = publication.alarm and publication.alarm == self.alarm and self.short()
            if not waits:
                self.loosened(publication)
            publication.held = False
            for copy in [copy for copy in publication.copies if not copy.fate and not copy.times_out]:
                copy.sure, copy.astray, copy.came = False, True, self.batch()
                if waits:
                    copy.end("held, and dropped with its channel", 0)

    def purged(self, place: Place) -> list[Copy]:
        """A queue was purged: what was ready is gone, and what may have been on its way into the queue is in doubt.

        Those that are gone for good once the purge is answered. The others may have died before it: a dead letter and
        the end of its message go to disk as one, and while there is no room for the one the other can come back.
        """
        ready = [copy for copy in place.copies.values() if copy.possibly_ready(self.now)]
        gone = [copy for copy in ready if not (copy.publication.held or copy.waits)]
        for copy in ready:
            if copy.waits:
                copy.sure, copy.astray = False, True
                for dead in copy.group.left if copy.group is not None else ():
                    dead.shaky = True
        for copy in ready:
            copy.astray |= copy.publication.held  # it may have been handled before, and be gone with the others
        for copy in gone:
            copy.end("purged", self.batch())
            for group in (copy.group, *copy.groups_left):
                if group is not None:
                    group.open = False
        return [copy for copy in gone if not (any(copy.place.dead_letter_queues) and copy.may_have_gone(self.now))]

    # The end of what one event has brought about

    def settle(self) -> None:
        """Nothing more follows from this event: see that messages were taken in their order."""
        taken, self._taken = self._taken, {}
        for place, copies in taken.items():
            wrong = None if place.blurred else passed_over(place, copies, self.now, self.event)
            if wrong is not None:
                one, other = wrong
                raise Broken(f"{self.tell(one)} was taken, and {self.tell(other)} before it was not")
        served, self.served = self.served, {}
        for place, taker in served:
            if any(other.priority > taker.priority and other.hungry_enough for other in place.takers):
                raise Broken(f"queue {place.recipe.name} passes over a consumer of higher priority that has credit")
        for place in [place for place in self.places.values() if place.said_empty]:
            place.said_empty = False
            left = [copy for copy in place.copies.values() if copy.certainly_ready(self.now)]
            left = [copy for copy in left if copy.since < self.event]
            if left and not place.blurred:
                raise Broken(f"queue {place.recipe.name} says it is empty, without {self.tell(left[0])}")

    def tell(self, copy: Copy) -> str:
        """A copy in words."""
        said = "dead letter" if copy.is_dead_letter else "message"
        doubt = "" if copy.sure else ", in doubt"
        return f"{said} {copy.publication.number} of queue {copy.place.recipe.name}{doubt}"


def headers_of(properties: Any) -> tuple[str, str]:
    """The queue and the reason of the latest death, both empty for what never died."""
    deaths = (properties.headers or {}).get("x-death")
    if deaths is None or not deaths.value:
        return "", ""
    latest = deaths.value[0].value
    return latest["queue"].value.decode(), latest["reason"].value.decode()
