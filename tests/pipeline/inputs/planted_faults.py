"""Planted faults of one message each, among innocent ones, and what an audit must say of the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.pipeline.inputs.made_up_events import PUBLISHER
from tests.pipeline.inputs.planted_stories import Story, restart

Fault = Callable[[Story, int], object]


# Planted faults, each in a queue with innocents before and behind it: what is done with the message, and its verdict


def purge(history: Story, message: int) -> None:
    history.tell("purge", queue="q", detail=f'{{"below": {message + 1}, "kept": []}}')


def delete(history: Story, message: int) -> None:
    history.tell("delete", queue="q", detail=f'{{"below": {message + 1}, "kept": []}}')


def recover(history: Story, message: int) -> None:
    """A start that finds the queue and the message."""
    history.start()
    history.declare()
    history.recorded(message)


def again(history: Story, message: int) -> None:
    """A delivery, marked as redelivered, and its acknowledgement."""
    history.deliver(message, redelivered=True)
    history.of("ack", message)


def _unacknowledged(history: Story, message: int) -> None:
    history.deliver(message)
    restart(history, message)
    history.deliver(message)


def _given_back(history: Story, message: int) -> None:
    history.deliver(message)
    history.of("requeue", message)
    again(history, message)


FAULTS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "purged, then delivered": (
        lambda h, m: (purge(h, m), h.deliver(m)),
        ("settled", "delivered after its end"),
    ),
    "purged, then delivered and acknowledged": (
        lambda h, m: (purge(h, m), h.consume(m)),
        ("settled", "delivered after its end"),
    ),
    "purged, and there after a restart": (
        lambda h, m: (purge(h, m), restart(h, m)),
        ("settled", "there again after its end"),
    ),
    "purged, which came undone": (
        lambda h, m: (purge(h, m), restart(h, m, known=1), again(h, m)),
        ("settled",),
    ),
    "deleted with its queue, then delivered": (
        lambda h, m: (delete(h, m), h.consume(m)),
        ("settled", "delivered after its end"),
    ),
    "deleted with its queue, and there after a restart": (
        lambda h, m: (delete(h, m), restart(h, m)),
        ("settled", "there again after its end"),
    ),
    "deleted with its queue, and there after an orderly stop": (
        lambda h, m: (delete(h, m), h.stop(), recover(h, m)),
        ("settled", "there again after its end"),
    ),
    "deleted with its queue, which came undone": (
        lambda h, m: (delete(h, m), recover(h, m), again(h, m)),
        ("settled",),
    ),
    "deleted with its queue, which came undone before a start that was killed": (
        lambda h, m: (delete(h, m), h.start(), recover(h, m), again(h, m)),
        ("settled",),
    ),
    "deleted with its queue, and there again in one declared later": (
        lambda h, m: (delete(h, m), restart(h), h.declare(), h.consume(m)),
        ("settled", "delivered after its end"),
    ),
    "settled twice": (lambda h, m: (h.consume(m), h.of("ack", m)), ("settled", "settled twice")),
    "acknowledged, then expired": (
        lambda h, m: (h.consume(m), h.of("expire", m, reason="expired")),
        ("settled", "settled twice"),
    ),
    "with two consumers at once": (
        lambda h, m: (h.deliver(m), again(h, m)),
        ("settled", "two holders at once"),
    ),
    "with two consumers, where the first one's end may be missing": (
        lambda h, m: (h.deliver(m), h.lose(1), again(h, m)),
        ("settled",),
    ),
    "dead, and its dead letter never came": (
        lambda h, m: (h.deliver(m), h.reject(m)),
        ("settled", "its dead letter never came"),
    ),
    "dead, and its dead letter goes nowhere": (
        lambda h, m: (h.deliver(m), h.reject(m, queues=0)),
        ("settled",),
    ),
    "dead, where its dead letter may be missing": (lambda h, m: (h.deliver(m), h.reject(m), h.lose(2)), ("settled",)),
    "given back in between": (_given_back, ("settled",)),
    "new again after a restart": (_unacknowledged, ("queued", "delivered as new after a restart")),
    "acknowledged, and nobody had it": (lambda h, m: h.of("ack", m), ("settled", "settled, not delivered")),
    "acknowledged, and nobody had it any more": (
        lambda h, m: (h.deliver(m), h.of("requeue", m), h.of("ack", m)),
        ("settled", "settled, not delivered"),
    ),
    "acknowledged, and its delivery may be missing": (lambda h, m: (h.lose(1), h.of("ack", m)), ("settled",)),
    "acknowledged after a restart that took it back": (
        lambda h, m: (h.deliver(m), restart(h, m), h.of("ack", m)),
        ("settled", "settled, not delivered"),
    ),
    "expired while a consumer had it": (
        lambda h, m: (h.deliver(m), h.reject(m, queues=0, kind="expire", reason="expired")),
        ("settled", "gone while a consumer had it"),
    ),
    "expired when it was given back": (
        lambda h, m: (h.deliver(m), h.of("requeue", m), h.reject(m, queues=0, kind="expire", reason="expired")),
        ("settled",),
    ),
    "marked at its first delivery": (again, ("settled", "first delivery marked as redelivered")),
    "marked at its first delivery after a restart": (lambda h, m: (restart(h, m), again(h, m)), ("settled",)),
    "marked at its first delivery that is known": (lambda h, m: (h.lose(2), again(h, m)), ("settled",)),
    "acknowledged, and in the record of the stop": (
        lambda h, m: (h.consume(m), h.stop(m)),
        ("settled", "there again after its end"),
    ),
    "absent from a record, and in the next": (
        lambda h, m: (h.stop(m), restart(h), h.stop(m)),
        ("queued", "absent from a record, and back"),
    ),
    "absent from a record, and delivered": (
        lambda h, m: (h.stop(m), restart(h), again(h, m)),
        ("settled", "absent from a record, and back"),
    ),
    "absent from a record that lacks its begin, and back": (
        lambda h, m: (h.lose(1), h.stop(m), h.start(after=2), h.recorded(), again(h, m)),
        ("settled",),
    ),
    "new again, where its mark may not have been on disk": (
        lambda h, m: (h.deliver(m), restart(h, m, known=1), h.consume(m)),
        ("settled",),
    ),
}


# Faults that only the arguments of a queue, or the answers to its publisher, show


def _in(
    arguments: dict[str, Any] | None, *steps: Callable[[Story, int], object], kind: str = "classic", since: Any = None
) -> Callable[[Story, int], None]:
    """The message is in a queue with these arguments; or with those of a policy `since` before it came."""

    def tell(history: Story, _: int) -> None:
        history.declare("limited", arguments=arguments, kind=kind)
        if since is not None:
            history.policy("limited", **since)
        message = history.publish("limited")
        for step in steps:
            step(history, message)

    return tell


def gone(kind: str, **fields: Any) -> Callable[[Story, int], object]:
    return lambda history, message: history.of(kind, message, "limited", **fields)


def letter(to: str, **told: Any) -> Callable[[Story, int], object]:
    """A dead letter of the message is published."""
    return lambda history, message: history.dead_letter(message, "limited", to, **told)


def dead(exchange: str, queues: int = 0) -> Callable[[Story, int], object]:
    detail = f'{{"queues": {queues}}}'
    return gone("deadletter", reason="expired", exchange=exchange, detail=detail)


def _given_back_in_limited(history: Story, message: int) -> None:
    history.deliver(message, "limited")
    history.of("requeue", message, "limited")


def _acknowledged(history: Story, message: int) -> None:
    history.consume(message, "limited")


EXPIRES = gone("expire", reason="expired")
LETTERS = {"dead-letter-exchange": "dlx"}
BESIDE: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "expires where nothing does": (_in({}, EXPIRES), ("settled", "expired without a time to live")),
    "expires by its queue's": (_in({"message-ttl": 1}, EXPIRES), ("settled",)),
    "expires by a policy that is gone": (
        _in({"message-ttl": 1}, lambda h, m: h.policy("limited"), EXPIRES),
        ("settled",),
    ),
    "expires in a queue of which nothing is known": (_in(None, EXPIRES), ("settled",)),
    "expires behind a gap that may hide a policy": (_in({}, lambda h, m: h.lose(1), EXPIRES), ("settled",)),
    "dropped by a length that is not limited": (
        _in({"delivery-limit": 2}, gone("drop", reason="maxlen")),
        ("settled", "dropped without a limit"),
    ),
    "dropped by a length that a policy limits": (
        _in({}, lambda h, m: h.policy("limited", max_length_bytes=5), gone("drop", reason="maxlen")),
        ("settled",),
    ),
    "dropped by a limit of deliveries that is not there": (
        _in({"max-length": 2}, gone("drop", reason="delivery_limit")),
        ("settled", "dropped without a limit"),
    ),
    "expires by what ended before it came": (
        _in({"message-ttl": 1}, EXPIRES, since={}),
        ("settled", "expired without a time to live"),
    ),
    "dropped by a length that ended before it came": (
        _in({"max-length": 2}, gone("drop", reason="maxlen"), since={}),
        ("settled", "dropped without a limit"),
    ),
    "dropped where a full queue refuses": (
        _in({"max-length": 2, "overflow": "reject-publish"}, gone("drop", reason="maxlen")),
        ("settled", "dropped without a limit"),
    ),
    "dropped by a policy by which a full queue is to refuse": (
        _in(
            {}, lambda h, m: h.policy("limited", max_length=2, overflow="reject-publish"), gone("drop", reason="maxlen")
        ),
        ("settled",),
    ),
    "dropped by a policy when a full queue refused already": (
        _in(
            {"max-length": 2, "overflow": "reject-publish"},
            lambda h, m: h.policy("limited", max_length=1, overflow="reject-publish"),
            gone("drop", reason="maxlen"),
        ),
        ("settled", "dropped without a limit"),
    ),
    "dropped where a full quorum queue cannot dead-letter": (
        _in({"max-length": 2, "overflow": "reject-publish-dlx"}, gone("drop", reason="maxlen"), kind="quorum"),
        ("settled",),
    ),
    "dropped by a limit of deliveries without any": (
        _in({"delivery-limit": 2}, gone("drop", reason="delivery_limit"), kind="quorum"),
        ("settled", "dropped without a limit"),
    ),
    "dropped by a limit of deliveries": (
        _in({"delivery-limit": 0}, _given_back_in_limited, gone("drop", reason="delivery_limit"), kind="quorum"),
        ("settled",),
    ),
    "dropped for no reason": (_in({}, gone("drop")), ("settled", "dropped without a limit")),
    "released by what ended before it came": (
        _in({"dead-letter-strategy": "at-least-once"}, gone("release"), kind="quorum", since={}),
        ("settled", "released without a delay"),
    ),
    "released where nothing is delayed": (_in({}, gone("release")), ("settled", "released without a delay")),
    "released by a queue that keeps dead letters": (
        _in({"dead-letter-strategy": "at-least-once"}, gone("release")),
        ("settled",),
    ),
    "released to another queue": (
        _in(
            {},
            lambda h, m: h.tell("publish", msg_id=m + 50, queue="limited", position=m, channel=0, connection=""),
            gone("release"),
        ),
        ("settled",),
    ),
    "expired, and there is no dead letter": (
        _in({"message-ttl": 1, **LETTERS}, EXPIRES),
        ("settled", "died without its dead letter"),
    ),
    "rejected, and there is no dead letter where one may be lost": (
        _in(LETTERS, gone("deliver", redelivered=False), gone("reject", reason="rejected"), lambda h, m: h.lose(2)),
        ("settled",),
    ),
    "rejected while the policy of its dead letters changed": (
        _in(LETTERS, gone("deliver", redelivered=False), lambda h, m: h.policy("limited"), gone("reject")),
        ("settled",),
    ),
    "dead letter for another exchange": (
        _in({"message-ttl": 1, **LETTERS}, EXPIRES, gone("deadletter", reason="expired", exchange="elsewhere")),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter where there are none": (
        _in({"message-ttl": 1}, EXPIRES, gone("deadletter", reason="expired", exchange="dlx")),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter for another reason": (
        _in({"message-ttl": 1, **LETTERS}, EXPIRES, gone("deadletter", reason="rejected", exchange="dlx")),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter for an exchange of before": (
        _in({"message-ttl": 1, **LETTERS}, EXPIRES, dead("dlx"), since={"message_ttl": 1}),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter for an exchange that changed meanwhile": (
        _in({"message-ttl": 1, **LETTERS}, lambda h, m: h.policy("limited"), EXPIRES, dead("dlx")),
        ("settled",),
    ),
    "dead letter published to another exchange": (
        _in({"message-ttl": 1, **LETTERS}, EXPIRES, dead("dlx", 1), letter("dead", exchange="elsewhere")),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter published with another key": (
        _in(
            {"message-ttl": 1, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"},
            *(EXPIRES, dead("", 1), letter("elsewhere")),
        ),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter published with its queue's key": (
        _in(
            {"message-ttl": 1, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"},
            *(EXPIRES, dead("", 1), letter("dead")),
        ),
        ("settled",),
    ),
    "dead letter published of the living": (
        _in({}, letter("dead"), _acknowledged),
        ("settled", "dead letter unlike its death"),
    ),
    "dead letter of the living": (
        _in(LETTERS, gone("deadletter", reason="rejected", exchange="dlx")),
        ("queued", "dead letter unlike its death"),
    ),
}


ANSWERED: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "confirmed twice": (lambda h, m: h.answer(m), ("answered twice",)),
    "confirmed and refused": (lambda h, m: h.answer(m, "nack"), ("confirmed and refused",)),
    "confirmed to another connection": (
        lambda h, m: h.answer(h.publish(confirmed=False), connection="127.0.0.1:6"),
        ("answered to another connection",),
    ),
    "confirmed on another channel": (
        lambda h, m: h.answer(h.publish(confirmed=False), channel=2),
        ("answered to another connection",),
    ),
    "confirmed in the next boot": (
        lambda h, m: (h.publish(confirmed=False), restart(h, m, m + 1), h.answer(m + 1)),
        ("answered to another connection",),
    ),
    "confirmed and never published": (lambda h, m: h.answer(m + 77), ("answered, never published",)),
    "refused and never published": (lambda h, m: h.answer(m + 77, "nack"), ("answered, never published",)),
    "confirmed and never published where the log has a gap": (lambda h, m: (h.lose(1), h.answer(m + 77)), ()),
    "refused before its publish": (
        lambda h, m: (h.answer(m + 1, "nack"), h.publish(confirmed=False)),
        ("answered before its publish",),
    ),
    "published twice": (
        lambda h, m: h.tell("publish", msg_id=m, **PUBLISHER, detail='{"queues": 1}'),
        ("published twice",),
    ),
    "confirmed before it came into its queue": (
        lambda h, m: (h.answer(m + 1), h.publish("other", confirmed=False)),
        ("answered before its publish", "confirmed before its route"),
    ),
    "confirmed between two of its queues": (
        lambda h, m: h.tell("route", queue="third", msg_id=m, position=m, persistent=True),
        ("confirmed before its route", "routed too often"),
    ),
    "numbered by the next boot": (
        lambda h, m: h.tell("publish", msg_id=m + (1 << 40), **PUBLISHER, detail='{"queues": 0}'),
        ("numbered by another boot",),
    ),
    "in a queue more than it was routed to": (
        lambda h, m: (
            h.tell("route", queue="third", msg_id=h.publish(confirmed=False), position=m + 1),
            h.answer(m + 1),
        ),
        ("routed too often",),
    ),
    "in its queue before it was published": (
        lambda h, m: (
            h.tell("route", queue="other", msg_id=m + 9, position=m + 9, persistent=True),
            h.tell("publish", msg_id=m + 9, **PUBLISHER, persistent=True, detail='{"queues": 1}'),
        ),
        ("routed before its publish",),
    ),
    "returned from a queue": (lambda h, m: h.answer(m, "return"), ("returned, and routed",)),
}


def told_beside(name: str) -> Story:
    """The history of a fault of BESIDE or ANSWERED, with an innocent message in another queue."""
    history = Story(name)
    (BESIDE | ANSWERED)[name][0](history, history.publish())
    history.consume(history.publish("other"), "other")
    return history


def told_among_innocents(name: str) -> tuple[Story, int]:
    """The history of a fault of FAULTS, with innocent messages before and behind it; the message's number."""
    history = Story(name)
    history.consume(history.publish("other"), "other")
    message = history.publish()
    FAULTS[name][0](history, message)
    if history.boot == 1:
        history.consume(history.publish("other"), "other")
    return history, message
