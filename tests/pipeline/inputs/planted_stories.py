"""Planted histories of brokers, with the verdicts that an audit must reach: nothing else may be found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.pipeline.inputs.made_up_events import History

Place = tuple[str, int]
Gap = tuple[str, int, int, int | None, bool]
"""Kind, boot, after, lost, doubtful."""


class Story(History):
    """A broker that begins with an empty queue `q`; the verdict, and violations behind it, that each copy must get."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.verdicts: dict[Place, tuple[str, ...]] = {}
        self.gaps: list[Gap] = []
        self.start()
        self.declare(arguments={"dead-letter-exchange": "", "message-ttl": 1})
        self.recorded()

    def message(self, *verdict: str, queue: str = "q", confirmed: bool = True, kept: bool = True) -> int:
        """A message is published into a queue; its number."""
        number = self.publish(queue, confirmed=confirmed, kept=kept)
        self.verdicts[queue, number] = verdict
        return number


STORIES: dict[str, Callable[[Story], None]] = {}


def story(events: Callable[[Story], None]) -> Callable[[Story], None]:
    """Have the audit judge these events too."""
    STORIES[events.__name__] = events
    return events


def history_of(name: str) -> Story:
    """All events of a story, and what must be found in them."""
    history = Story(name)
    STORIES[name](history)
    return history


KILLED = ("end of a boot", 1, 6, 0, False)
IN_DOUBT = ("end of a boot", 1, 6, 94, True)
# The start that left no log may have noted how far its own had come, over how far this one had.
KILLED_TWICE = [KILLED, ("boots without a log", 2, 0, None, False)]
NO_LOG = [("end of a boot", 1, 6, None, True), ("boots without a log", 2, 0, None, True)]


def gone_after_a_kill(history: Story, next_boot: dict[str, int], verdict: str, gaps: list[Gap]) -> None:
    history.message(verdict)
    history.start(**next_boot)
    history.recorded()
    history.gaps += gaps


STORIES |= {
    "the lost end had reached the disk": partial(
        gone_after_a_kill, next_boot={"known": 100}, verdict="unknown", gaps=[IN_DOUBT]
    ),
    "the lost end had not reached the disk": partial(
        gone_after_a_kill, next_boot={"known": 5}, verdict="lost", gaps=[KILLED]
    ),
    "the next boot left something on disk, and no log": partial(
        gone_after_a_kill, next_boot={"known": 0, "after": 2}, verdict="unknown", gaps=NO_LOG
    ),
    "the next start was killed too": partial(
        gone_after_a_kill, next_boot={"known": 5, "after": 2, "idle": True}, verdict="lost", gaps=KILLED_TWICE
    ),
}


@story
def sound(history: Story) -> None:
    history.consume(history.message("settled"))
    waiting, both = history.message("queued"), history.publish("q", "other")
    history.consume(both)
    history.of("queued", both, "other")
    history.stop(waiting)
    history.verdicts.update({("q", both): ("settled",), ("other", both): ("queued",)})


@story
def gone_at_the_next_start(history: Story) -> None:
    history.message("lost")
    history.message("not confirmed", confirmed=False)
    history.message("not kept", kept=False)
    there = history.message("queued")
    history.start()
    history.recorded(there)
    history.gaps.append(("end of a boot", 1, 14, 0, False))


@story
def gone_at_an_orderly_stop(history: Story) -> None:
    history.deliver(history.message("lost"))
    history.stop()


@story
def an_order_that_is_lost(history: Story) -> None:
    """The publisher's own name for it is in the log."""
    order = history.publish(properties='{"message_id": "order-17"}', size_bytes=512)
    history.verdicts["q", order] = ("lost",)
    history.stop()


@story
def stopped_without_time_to_record_everything(history: Story) -> None:
    history.message("queued")
    history.stop(complete=False)


@story
def events_that_were_not_written(history: Story) -> None:
    history.message("unknown")
    history.lose(3)
    history.message("lost")
    history.start()
    history.recorded()
    history.gaps += [("events not written", 1, 6, 3, True), ("end of a boot", 1, 12, 0, False)]


@story
def boots_without_a_log(history: Story) -> None:
    history.stop(history.message("unknown"))
    history.start(after=3)
    history.recorded()
    history.gaps.append(("boots without a log", 2, 0, None, True))


@story
def a_start_that_was_cut_short(history: Story) -> None:
    """It is no full record: the next one is."""
    there, _ = history.message("queued"), history.message("lost")
    history.start()
    history.start()
    history.recorded(there)
    history.gaps += [("end of a boot", 1, 9, 0, False), ("end of a boot", 2, 1, 0, False)]


@story
def an_ack_that_was_on_disk(history: Story) -> None:
    """It may not come undone."""
    twice, once = history.message("settled", "delivered after its end"), history.message("settled")
    history.consume(twice)
    history.consume(once)
    history.start()
    history.recorded()
    history.deliver(twice, redelivered=True)
    history.of("ack", twice)
    history.gaps.append(("end of a boot", 1, 13, 0, False))


@story
def a_backup_that_was_restored(history: Story) -> None:
    """It brings back what had ended: the boots without a log in between say so, and nobody is to blame."""
    taken, there = history.message("settled"), history.message("settled")
    for message in (taken, there):
        history.consume(message)
    history.stop()
    history.start(after=1000)
    history.recorded(taken, there)
    history.consume(taken)
    history.gaps.append(("boots without a log", 2, 0, None, True))


@story
def an_ack_that_was_not_on_disk(history: Story) -> None:
    """It may come undone."""
    message, again = history.message("settled"), history.message("queued")
    history.consume(message)
    history.consume(again)
    history.start(known=9)
    history.recorded(message, again)
    history.deliver(message, redelivered=True)
    history.of("ack", message)
    history.stop(again)
    history.gaps.append(("end of a boot", 1, 13, 0, False))


@story
def new_twice(history: Story) -> None:
    twice = history.message("settled", "delivered twice as new", "two holders at once")
    history.deliver(twice)
    history.consume(twice)


@story
def behind_a_later_one(history: Story) -> None:
    first, second = history.message("settled", "out of order"), history.message("settled")
    for message in (second, first, history.message("settled")):
        history.consume(message)


@story
def no_order_is_asked_of_priorities_nor_of_what_came_back(history: Story) -> None:
    history.declare("levels", max_priority=9)
    low, high = history.message("settled", queue="levels"), history.message("settled", queue="levels")
    history.consume(high, "levels")
    history.consume(low, "levels")
    first, second = history.message("queued"), history.message("queued")
    history.deliver(first)
    history.deliver(second)
    history.of("requeue", first)
    history.deliver(first, redelivered=True)


@story
def purged(history: Story) -> None:
    """Messages held by consumers stay; later ones are not taken, nor those of another queue."""
    _, held = history.message("settled"), history.message("queued")
    history.deliver(held)
    history.tell("purge", queue="q", detail=f'{{"below": {held + 1}, "kept": [{held}]}}')
    history.message("lost")
    history.message("lost", queue="other")
    history.stop(held)


@story
def gone_before_its_queue_was_purged(history: Story) -> None:
    """A purge that came after its absence has not ended it."""
    _, there = history.message("lost"), history.message("settled")
    history.start()
    history.recorded(there)
    history.tell("purge", queue="q", detail=f'{{"below": {there + 1}, "kept": []}}')
    history.gaps.append(("end of a boot", 1, 9, 0, False))


@story
def to_the_end_of_a_quorum_queue(history: Story) -> None:
    history.declare("quorum", kind="quorum")
    place = history.message("settled", queue="quorum")
    for times in range(5):
        history.deliver(place, "quorum", redelivered=times > 0)
        history.of("requeue", place, "quorum")
        place = history.move(place, "quorum")
        history.verdicts["quorum", place] = ("settled",) if times < 4 else ("queued",)
    history.stop(place, queue="quorum")


@story
def to_the_end_of_a_queue_that_moves_none(history: Story) -> None:
    message = history.message("settled")
    history.deliver(message)
    history.of("requeue", message)
    history.verdicts["q", message + 1] = ("settled", "in its queue twice")
    history.consume(history.move(message))


@story
def acknowledged_and_at_the_end_of_its_queue(history: Story) -> None:
    history.declare("quorum", kind="quorum")
    message = history.message("settled", queue="quorum")
    history.consume(message, "quorum")
    history.verdicts["quorum", message + 1] = ("settled", "in its queue twice")
    history.consume(history.move(message, "quorum"), "quorum")


@story
def dead_and_waiting_in_its_queue(history: Story) -> None:
    """A queue that keeps dead letters has them at places of their own."""
    history.declare("quorum", kind="quorum", arguments={"dead-letter-strategy": "at-least-once"})
    message = history.message("settled", queue="quorum")
    history.deliver(message, "quorum")
    history.of("reject", message, "quorum", reason="rejected")
    history.verdicts["quorum", message + 1] = ("settled",)
    history.of("release", history.move(message, "quorum"), "quorum")


@story
def persistent_and_kept_in_memory(history: Story) -> None:
    """But not where the queue is lost at a restart too."""
    history.tell(
        "declare", queue="lost", detail='{"type": "classic", "durable": false, "max_priority": 0, "arguments": {}}'
    )
    persistent = {"persistent": True, "detail": '{"queues": 2}'}
    message = (history.boot << 40) + 9
    history.tell("publish", msg_id=message, connection="c", channel=1, size_bytes=1, **persistent)
    for queue, verdict in (("q", ("queued", "persistent, and not kept")), ("lost", ("queued",))):
        history.tell("route", queue=queue, msg_id=message, position=message, persistent=False)
        history.verdicts[queue, message] = verdict


@story
def into_a_queue_that_was_deleted(history: Story) -> None:
    history.declare("gone")
    before = history.message("settled", queue="gone")
    history.tell("delete", queue="gone", detail=f'{{"below": {before + 1}, "kept": []}}')
    history.message("queued", "routed into a deleted queue", queue="gone")
    history.declare("gone")
    history.message("queued", queue="gone")


def _move_that_came_undone(history: Story) -> int:
    """It was not on disk when the broker was killed: the message is where it was, and no other is lost."""
    history.declare("quorum", kind="quorum")
    place = history.message("settled", queue="quorum")
    history.deliver(place, "quorum")
    history.of("requeue", place, "quorum")
    history.verdicts["quorum", history.move(place, "quorum")] = ("not confirmed",)
    history.start(known=8)
    history.gaps.append(("end of a boot", 1, 10, 0, False))
    return place


@story
def a_move_that_came_undone(history: Story) -> None:
    place = _move_that_came_undone(history)
    history.recorded(place, queue="quorum")
    history.deliver(place, "quorum", redelivered=True)
    history.of("ack", place, "quorum")


@story
def a_move_that_came_undone_and_an_end_before_any_record(history: Story) -> None:
    """A start takes its time to record everything: the stop came sooner."""
    place = _move_that_came_undone(history)
    history.deliver(place, "quorum", redelivered=True)
    history.of("ack", place, "quorum")
    history.stop()


@story
def a_move_that_was_not_on_disk(history: Story) -> None:
    """But its message is gone from both places."""
    history.declare("quorum", kind="quorum")
    place = history.message("settled", queue="quorum")
    for verdict in ("settled", "lost"):
        history.deliver(place, "quorum")
        history.of("requeue", place, "quorum")
        place = history.move(place, "quorum")
        history.verdicts["quorum", place] = (verdict,)
    history.start(known=5)
    history.recorded()
    history.gaps.append(("end of a boot", 1, 13, 0, False))


@story
def a_dead_letter_that_is_gone(history: Story) -> None:
    """Nobody has confirmed it, but its message has left for it, and that was on disk."""
    message = history.message("settled")
    history.deliver(message)
    history.verdicts["dead", history.die(message, "q", "dead")] = ("lost",)
    history.start()
    history.recorded()
    history.gaps.append(("end of a boot", 1, 11, 0, False))


@story
def a_dead_letter_that_was_not_on_disk(history: Story) -> None:
    """Its message is there again."""
    message = history.message("settled")
    history.deliver(message)
    history.verdicts["dead", history.die(message, "q", "dead")] = ("not confirmed",)
    history.start(known=7)
    history.recorded(message)
    history.deliver(message, redelivered=True)
    history.of("ack", message)
    history.gaps.append(("end of a boot", 1, 11, 0, False))


@story
def there_again_and_nobody_is_given_it(history: Story) -> None:
    message = history.message("settled", "there again after its end")
    history.consume(message)
    history.start()
    history.recorded(message)
    history.gaps.append(("end of a boot", 1, 8, 0, False))


@story
def a_dead_letter_that_came_twice(history: Story) -> None:
    message = history.message("settled", "its dead letter came twice")
    history.deliver(message)
    for dead_letter in (history.die(message, "q", "dead"), history.dead_letter(message, "q", "dead")):
        history.verdicts["dead", dead_letter] = ("queued",)


@story
def a_dead_letter_that_a_full_queue_refused(history: Story) -> None:
    """It was published, and is in no queue: that is no loss."""
    message = history.message("settled")
    history.deliver(message)
    history.reject(message)
    dead_letter = {"msg_id": (1 << 40) + 9, "queue": "q", "position": message, "connection": "", "channel": 0}
    history.tell("publish", exchange="", size_bytes=1, persistent=True, detail='{"queues": 1}', **dead_letter)


@story
def one_queue_of_two_never_had_it(history: Story) -> None:
    """A message is lost where it never was, unless the log may have lost its way there."""
    history.verdicts[None, None] = ("lost",)  # type: ignore[index]
    for number, lost in enumerate((0, 1, 0), 1):
        message = history.boot << 40 | number
        routed = {"msg_id": message, "connection": "c", "channel": 1, "size_bytes": 1, "persistent": True}
        history.tell("publish", detail='{"queues": 2}', **routed)
        history.tell("route", queue="q", msg_id=message, position=message, persistent=True)
        history.verdicts["q", message] = ("settled",)
        history.lose(lost)
        if number != 3:
            history.answer(message, connection="c")
        history.consume(message)
    history.gaps.append(("events not written", 1, 10, 1, True))


def restart(history: Story, *queued: int, **known: int) -> None:
    history.start(**known)
    history.recorded(*queued)


# Routing mistakes: what is bound how when a message with key `eu` comes into `q` alone, and whether `other` lacks it

Bound = Callable[[Story], object]


def bound(*keys: str, **told: Any) -> Bound:
    return lambda history: [history.bind(key, queue="other", **told) for key in keys]


def both(*steps: Bound) -> Bound:
    return lambda history: [step(history) for step in steps]


LACKING: dict[str, tuple[Bound, dict[str, Any], bool]] = {
    "bound for its key": (bound("eu", kind="direct"), {}, True),
    "bound for another key": (bound("us", "eu.#.x", "", kind="direct"), {}, False),
    "bound by a fanout": (bound("us", kind="fanout"), {}, True),
    "bound by topics that match": (bound("eu.#"), {}, True),
    "bound by a topic of one word": (bound("*"), {}, True),
    "bound by topics that do not match": (bound("*.#.*", "eu.*", "e*", "eux", "Eu"), {}, False),
    "bound for the empty key, which has no word": (bound("*"), {"routing_key": ""}, False),
    "bound for any key, empty ones included": (bound("#"), {"routing_key": ""}, True),
    "bound for words that may be empty": (bound("a.*.b.#"), {"routing_key": "a..b"}, True),
    "bound by headers": (bound("eu", kind="headers"), {}, False),
    "bound for names that are no UTF-8": (bound("\\xff"), {"routing_key": "\\xff"}, False),
    "bound to an exchange whose name is no UTF-8": (
        bound("eu", exchange="\\xff", kind="fanout"),
        {"exchange": "\\xff"},
        False,
    ),
    "bound no longer": (both(bound("eu"), bound("eu", ends=True)), {}, False),
    "bound twice, once no longer": (both(bound("eu", "eu"), bound("eu", ends=True)), {}, True),
    "bound before its queue was deleted": (
        both(bound("eu"), lambda h: h.tell("delete", queue="other", detail='{"below": 1, "kept": []}')),
        {},
        False,
    ),
    "bound in a virtual host that has ended": (
        both(bound("eu"), lambda h: h.tell("unbind", queue="", exchange="", routing_key="", detail='{"type": ""}')),
        {},
        False,
    ),
    "bound in the boot before": (both(bound("eu"), lambda h: h.stop(), lambda h: restart(h)), {}, False),
    "bound where the end of it may be missing": (both(bound("eu"), lambda h: h.lose(1)), {}, False),
    "bound between publish and commit": (bound("eu"), {"detail": '{"queues": 1, "transaction": true}'}, False),
    "bound to the default exchange by its name": (bound(), {"exchange": "", "routing_key": "other"}, True),
}


def lacking(history: Story, name: str) -> None:
    steps, told, found = LACKING[name]
    history.declare("other")
    steps(history)
    message = history.publish("q", **told)
    history.verdicts["q", message] = ("queued",)
    if found:
        history.verdicts["other", message] = ("lost",)
    if "missing" in name:
        history.gaps.append(("events not written", 1, 5, 1, True))


STORIES |= {name: partial(lacking, name=name) for name in LACKING}


@story
def delivered_and_never_published(history: Story) -> None:
    """It is beside others, which are not out of order for it."""
    phantom = (1 << 40) + 77
    history.verdicts["q", phantom] = ("settled", "delivered, never published")
    history.consume(phantom)
    for _ in range(2):
        history.consume(history.message("settled"))


@story
def routed_and_never_published(history: Story) -> None:
    """It is ahead of others, which are not out of order for it."""
    phantom = (1 << 40) + 77
    history.verdicts["q", phantom] = ("settled", "routed, never published")
    history.tell("route", queue="q", msg_id=phantom, position=phantom, persistent=True)
    history.consume(phantom)
    for _ in range(3):
        history.consume(history.message("settled"))


@story
def recorded_and_never_published(history: Story) -> None:
    phantom = (1 << 40) + 77
    history.verdicts["q", phantom] = ("queued", "recorded, never published")
    history.stop(history.message("queued"), phantom)


@story
def a_stop_and_a_start_in_the_middle(history: Story) -> None:
    """No record is believed of a stop that is none."""
    history.message("queued")
    history.stop()
    history.tell("boot", detail='{"node": "", "previous_boot": 0, "previous_last": 0, "previous_known": 0}')
    history.tell("snapshot")
    history.message("queued")
    history.gaps += [("event out of place", 1, at, 0, False) for at in (2, 6, 7)]


@story
def routed_twice(history: Story) -> None:
    message = history.message("settled", "routed twice", confirmed=False)
    history.tell("route", queue="q", msg_id=message, position=message, persistent=True)
    history.answer(message)
    history.consume(message)
    history.verdicts[None, None] = ("message", "routed too often")  # type: ignore[index]


@story
def delivered_before_it_came(history: Story) -> None:
    """Others that came before it are not out of order for that."""
    later = (1 << 40) + 3
    before = [history.message("settled") for _ in range(2)]
    history.deliver(later)
    assert history.message("settled", "delivered before its route") == later
    for message in before:
        history.consume(message)
    history.of("ack", later)


@story
def the_end_of_a_killed_boot_is_gone(history: Story) -> None:
    """The next boot had found it in the log."""
    message = history.message("unknown")
    for _ in range(4):
        history.wait(0)
    history.lose(4)
    history.start()
    history.recorded()
    history.gaps += [("end of a boot", 1, 6, 4, True), ("events removed", 1, 6, 4, True)]
    assert message


@story
def the_end_of_a_stopped_boot_is_gone(history: Story) -> None:
    history.message("unknown")
    history.lose(2)
    history.start(known=0)
    history.recorded()
    history.gaps += [("end of a boot", 1, 6, 0, False), ("events removed", 1, 6, 2, True)]


@story
def a_boot_that_is_gone(history: Story) -> None:
    history.stop(history.message("unknown"))
    history.boot, history._seq = 2, 12
    history.start()
    history.recorded()
    history.gaps += [("boots without a log", 2, 0, None, True), ("events removed", 2, 0, 12, True)]


@story
def a_boot_without_its_first_event(history: Story) -> None:
    """Then nothing tells how much the boot before had on disk."""
    history.message("unknown")
    history.start()
    del history.events[-1]
    history._seq = 0
    history.recorded()
    history.gaps += [("end of a boot", 1, 6, None, True), ("boot without its first event", 2, 0, None, True)]


@story
def delivered_and_published_where_the_log_does_not_reach(history: Story) -> None:
    """Before the oldest segment that is kept, or in a gap."""
    history.lose(2)
    unknown = (1 << 40) + 77
    history.verdicts["q", unknown] = ("settled",)
    history.consume(unknown)
    history.gaps.append(("events not written", 1, 3, 2, True))
