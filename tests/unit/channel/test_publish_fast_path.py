"""Publish batches: whatever arrives in one piece has the effect of the same frames arriving one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.entities.queues.ready_messages import MemoryWindow
from broker.session.session_settings import SessionSettings
from broker.wire.frames import method_frame
from broker.wire.methods import BasicAck, BasicNack, ChannelClose, ConnectionClose
from harness.brokers.broker_core import Core
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import consume, exchange_declare, queue_bind, queue_declare

publishes = st.fixed_dictionaries(
    {
        "body": st.sampled_from((b"", b"a", b"b", b"cc", bytes(5000))),
        "how": st.fixed_dictionaries(
            {
                "key": st.sampled_from(("q", "q", "q", "r", "short", "nowhere")),
                "exchange": st.sampled_from(("", "", "", "fan", "by headers")),
                "persistent": st.booleans(),
                "mandatory": st.booleans(),
            },
            optional={
                "message_id": st.sampled_from(("one", "two", "longer")),
                "correlation_id": st.sampled_from(("x", "y")),
                "timestamp": st.integers(0, 3),
                "priority": st.integers(0, 3),
                "headers": st.sampled_from(({}, {"h": 1}, {"CC": ["r"]}, {"BCC": ["r"]})),
                "expiration": st.sampled_from(("1000", "2000")),
                "user_id": st.just("guest"),
                "type": st.sampled_from(("t", "u")),
            },
        ),
    }
)
rows = st.lists(st.tuples(publishes, st.integers(1, 6)), min_size=1, max_size=8)


@contextmanager
def joined(limits: SessionSettings | None = None) -> Iterator[SessionClient]:
    """A client with two channels, the first in confirm mode."""
    with tempfile.TemporaryDirectory() as directory:
        core = Core(Path(directory) / "messages", MemoryWindow(1 << 20, 1 << 30))
        client = SessionLayer(core, limits).connect(channels=2)
        client.confirm()
        client.ask(exchange_declare("fan", "fanout"))
        client.ask(exchange_declare("by headers", "headers"))
        for name, arguments in (("q", {}), ("r", {"x-message-ttl": 60000}), ("short", {"x-max-length": 2})):
            client.ask(queue_declare(name, durable=True, arguments=arguments))
            client.ask(queue_bind(name, "fan", ""))
            client.ask(queue_bind(name, "by headers", arguments={"h": 1}))
        try:
            yield client
            client.sessions.registry.check()
        finally:
            core.close()


def queue_contents(client: SessionClient) -> dict[str, list[tuple[Any, ...]]]:
    """Return the contents of the queues, in order, as the store and the broker's memory have them."""
    client.sessions.core.commit()
    return {
        name: [
            (entry.message.body, entry.message.header, entry.message.route, entry.message.priority, entry.expires_at)
            for entry in queue.ready_messages.resident()
            if entry.message is not None
        ]
        for name, queue in client.sessions.core.vhost.queues.items()
    }


def confirmed(items: list[Any]) -> tuple[set[int], set[int]]:
    """Return publishes acked and nacked, whatever their grouping."""
    sets: dict[type, set[int]] = {BasicAck: set(), BasicNack: set()}
    known: set[int] = set()
    for item in items:
        if isinstance(item, BasicAck | BasicNack):
            tags = set(range(1, item.delivery_tag + 1)) - known if item.multiple else {item.delivery_tag}
            sets[type(item)] |= tags
            known |= tags
    return sets[BasicAck], sets[BasicNack]


def returned(items: list[Any]) -> list[bytes]:
    return [item.body for item in items if isinstance(item, Message)]


@pytest.mark.slow
@settings(max_examples=40)
@given(rows, st.integers(1, 40))
def test_publishes_in_one_piece_are_the_same_as_one_by_one(
    row: list[tuple[dict[str, Any], int]], copies_max: int
) -> None:
    frames = [publish_frames(what["body"], **what["how"]) for what, count in row for _ in range(count)]
    outcomes = []
    for pieces, limits in ((frames, None), ([b"".join(frames)], SessionSettings(turn_copies_max=copies_max))):
        with joined(limits) as client:
            for piece in pieces:
                client.say(piece)
            contents = queue_contents(client)
            items = client.received()
            outcomes.append((contents, confirmed(items), returned(items)))
    assert outcomes[0] == outcomes[1]
    assert sum(map(len, outcomes[0][1])) == len(frames)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.sampled_from(("single", "single", "publish", "publish", "multiple", "unknown")), max_size=12))
def test_acks_and_publishes_in_one_piece_are_the_same_as_one_by_one(kinds: list[str]) -> None:
    outcomes = []
    for in_one_piece in (False, True):
        with joined() as client:
            client.ask(consume("q", tag="t"), channel=2)
            client.say(b"".join(publish_frames(b"%d" % number, key="q", persistent=True) for number in range(16)))
            client.sessions.core.commit()
            client.received(channel=2)
            frames, tag = [], 0
            for kind in kinds:
                if kind == "publish":
                    frames.append(publish_frames(b"%d" % len(frames), key="r", persistent=True, channel=2))
                    continue
                tag += 1 + (kind == "multiple")
                ack = BasicAck(99 if kind == "unknown" else tag, kind == "multiple")
                frames.append(method_frame(2, ack))
            for piece in [b"".join(frames)] if in_one_piece else frames:
                client.say(piece)
            queue = client.sessions.core.vhost.queues["q"]
            counts = queue.unacked, queue.store.state.messages, len(queue.ready_messages)
            outcomes.append((client.received(channel=2), counts, queue_contents(client)["r"]))
    assert outcomes[0] == outcomes[1]


RUN = [method_frame(2, BasicAck(tag, False)) for tag in range(1, 301)]


@pytest.mark.parametrize(
    ("at", "frame"),
    [
        (0, RUN[0]),
        (255, b""),
        (100, RUN[90]),
        (100, method_frame(2, BasicAck(101, True))),
        (100, method_frame(1, BasicAck(101, False))),
        (100, RUN[100][:-1] + b"\x00"),
        (299, RUN[299][:-1]),
    ],
    ids=["rising", "one left out", "one twice", "multiple", "another channel", "broken frame end", "incomplete"],
)
def test_a_run_of_acks_is_the_same_as_one_by_one(at: int, frame: bytes) -> None:
    frames = [*RUN[:at], frame, *RUN[at + 1 :]]
    outcomes = []
    for pieces in (frames, [b"".join(frames)]):
        with joined() as client:
            client.ask(consume("q", tag="t"), channel=2)
            client.say(b"".join(publish_frames(b"%d" % number, key="q") for number in range(len(RUN))))
            delivered = [(item.method.delivery_tag, item.body) for item in client.received(channel=2)]
            assert delivered == [(number + 1, b"%d" % number) for number in range(len(RUN))]
            for piece in pieces:
                client.say(piece)
            said = [client.received(channel=channel) for channel in range(3)]
            outcomes.append((said, client.sessions.core.vhost.queues["q"].unacked))
    assert outcomes[0] == outcomes[1]


@pytest.fixture
def client() -> Iterator[SessionClient]:
    with joined() as conversation:
        yield conversation


GOOD = publish_frames(b"good", key="q", message_id="m")
UNREADABLE = bytearray(GOOD)
UNREADABLE[13] = 200  # the length of the exchange's name


@pytest.mark.parametrize(
    ("bad", "channel", "said"),
    [
        (publish_frames(b"bad!", key="q", user_id="somebody"), 1, "PRECONDITION_FAILED - user_id property"),
        (GOOD.replace(b"\x01m\xce", b"\x09m\xce"), 0, "INTERNAL_ERROR"),
        (GOOD[:-1] + b"\x00", 0, 'FRAME_ERROR - type 3, all octets = <<"good">>: '),
        (publish_frames(bytes(300_000), key="q")[:-1] + b"\x00", 0, "FRAME_ERROR - type 3, "),
        (bytes(UNREADABLE), 0, "FRAME_ERROR - cannot decode <<"),
        (bytes(UNREADABLE[: UNREADABLE.index(0xCE) + 1]), 0, "FRAME_ERROR - cannot decode <<"),
    ],
    ids=["refused", "broken header", "broken frame end", "large frame's end", "arguments", "arguments without content"],
)
@pytest.mark.parametrize("chunk", [100_000, 1 << 20])
def test_a_mistake_in_a_batch_comes_behind_what_was_sound(
    client: SessionClient, bad: bytes, channel: int, said: str, chunk: int
) -> None:
    client.say(GOOD + GOOD + bad + GOOD, chunk=chunk)
    (close,) = (item for item in client.received(channel=channel) if isinstance(item, ChannelClose | ConnectionClose))
    assert close.reply_text.startswith(said)
    assert [body for body, *_ in queue_contents(client)["q"]] == [b"good", b"good"]
