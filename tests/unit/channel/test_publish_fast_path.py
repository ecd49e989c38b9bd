"""Publish batches: whatever arrives in one piece has the effect of the same frames arriving one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.queues.ready_messages import Window
from broker.session.session_settings import SessionSettings
from broker.wire.frames import method_frame
from broker.wire.methods import BasicAck, BasicNack, ChannelClose, ConnectionClose
from harness.brokers.broker_core import SMALL, Core
from harness.clients.session_client import Conversation, Party, publish_frames
from harness.clients.shorthand import consume, exchange_declare, get, queue_bind, queue_declare
from harness.clients.wire_client import Message

WIDE = Window(1 << 20, 1 << 30)

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
def joined(settings: SessionSettings | None = None, window: Window = WIDE) -> Iterator[Conversation]:
    """A client with two channels, the first in confirm mode."""
    with tempfile.TemporaryDirectory() as directory:
        core = Core(Path(directory), window)
        client = Party(core, settings).join(channels=2)
        client.confirm()
        client.ask(exchange_declare("fan", "fanout"))
        client.ask(exchange_declare("by headers", "headers"))
        for name, arguments in (("q", {}), ("r", {"x-message-ttl": 60000}), ("short", {"x-max-length": 2})):
            client.ask(queue_declare(name, durable=True, arguments=arguments))
            client.ask(queue_bind(name, "fan", ""))
            client.ask(queue_bind(name, "by headers", arguments={"h": 1}))
        try:
            yield client
            client.party.registry.check()
        finally:
            core.close()


def queue_contents(client: Conversation) -> dict[str, list[tuple[Any, ...]]]:
    """What lies in the queues, in order, as the store and the broker's memory have it."""
    client.party.core.commit()
    return {
        name: [
            (entry.message.body, entry.message.header, entry.message.route, entry.message.priority, entry.expires_at)
            for entry in queue.ready_messages.resident()
            if entry.message is not None
        ]
        for name, queue in client.party.core.vhost.queues.items()
    }


def confirmed(items: list[Any]) -> tuple[set[int], set[int]]:
    """Which publishes are acked and nacked, whatever their grouping."""
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
@given(rows, st.integers(1, 40))
def test_publishes_in_one_piece_are_the_same_as_one_by_one(
    row: list[tuple[dict[str, Any], int]], copies_max: int
) -> None:
    frames = [publish_frames(what["body"], **what["how"]) for what, count in row for _ in range(count)]
    outcomes = []
    for pieces, settings in ((frames, None), ([b"".join(frames)], SessionSettings(turn_copies_max=copies_max))):
        with joined(settings) as client:
            for piece in pieces:
                client.say(piece)
            contents = queue_contents(client)
            items = client.received()
            outcomes.append((contents, confirmed(items), returned(items)))
    assert outcomes[0] == outcomes[1]
    assert sum(map(len, outcomes[0][1])) == len(frames)


@pytest.mark.slow
@given(st.lists(st.sampled_from(("single", "single", "publish", "publish", "multiple", "unknown")), max_size=12))
def test_acks_and_publishes_in_one_piece_are_the_same_as_one_by_one(kinds: list[str]) -> None:
    outcomes = []
    for in_one_piece in (False, True):
        with joined() as client:
            client.ask(consume("q", tag="t"), channel=2)
            client.say(b"".join(publish_frames(b"%d" % number, key="q", persistent=True) for number in range(16)))
            client.party.core.commit()
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
            queue = client.party.core.vhost.queues["q"]
            counts = queue.unacked, queue.store.state.messages, len(queue.ready_messages)
            outcomes.append((client.received(channel=2), counts, queue_contents(client)["r"]))
    assert outcomes[0] == outcomes[1]


@pytest.fixture
def client() -> Iterator[Conversation]:
    with joined() as conversation:
        yield conversation


def test_a_refused_message_ends_its_channel_in_the_middle_of_a_batch(client: Conversation) -> None:
    good, bad = publish_frames(b"good", key="q"), publish_frames(b"bad!", key="q", user_id="somebody")
    client.say(good + good + bad + good)
    assert [type(item) for item in client.received()] == [ChannelClose]
    assert [body for body, *_ in queue_contents(client)["q"]] == [b"good", b"good"]


def test_a_broken_header_ends_the_connection_behind_what_was_sound(client: Conversation) -> None:
    good = publish_frames(b"good", key="q", message_id="m")
    broken = good.replace(b"\x01m\xce", b"\x09m\xce")
    assert broken != good
    client.say(good + good + broken + good)
    assert isinstance(client.received(channel=0)[0], ConnectionClose)
    assert [body for body, *_ in queue_contents(client)["q"]] == [b"good", b"good"]


def test_a_broken_frame_end_within_a_batch_is_found(client: Conversation) -> None:
    good = publish_frames(b"good", key="q")
    client.say(good + good + good[:-1] + b"\x00" + good)
    close = client.received(channel=0)[0]
    assert (close.reply_code, close.reply_text.partition(":")[0]) == (
        501,
        'FRAME_ERROR - type 3, all octets = <<"good">>',
    )
    assert [body for body, *_ in queue_contents(client)["q"]] == [b"good", b"good"]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_batch_longer_than_the_window_is_paged_and_comes_back_in_order(persistent: bool) -> None:
    bodies = [b"%d" % number for number in range(30)]
    with joined(window=SMALL) as client:
        for part in (bodies[:10], bodies[10:20], bodies[20:]):
            client.say(b"".join(publish_frames(body, key="q", persistent=persistent) for body in part))
            client.party.core.commit()
        assert len(client.party.core.vhost.queues["q"].ready_messages.resident()) < 30
        assert [client.ask(get("q", no_ack=True), channel=2).body for _ in bodies] == bodies


@pytest.mark.slow
@given(st.integers(1, 400_000), st.integers(50_000, 130_000))
def test_large_bodies_arrive_whole_however_they_are_cut(chunk: int, frame_max: int) -> None:
    bodies = [bytes([number]) * (300_000 + number) for number in range(3)]
    frames = b"".join(publish_frames(body, key="q", frame_max=frame_max) for body in bodies)
    with joined() as client:
        client.say(frames, chunk=max(chunk, 1000))
        assert [body for body, *_ in queue_contents(client)["q"]] == bodies


def test_a_large_frame_with_a_wrong_end_is_found(client: Conversation) -> None:
    frames = publish_frames(bytes(300_000), key="q")
    place = len(frames) - 1
    client.say(frames[:place] + b"\x00" + publish_frames(b"behind", key="q"), chunk=100_000)
    assert client.received(channel=0)[0].reply_code == 501
    assert queue_contents(client)["q"] == []
