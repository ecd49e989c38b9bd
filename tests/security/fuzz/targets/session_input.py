"""Target `session`: two clients of one broker say mostly sound things in any order, and some that are not.

Time, the disk and the alarms move between the clients' words, and a client may stop reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from broker.admin.protocol import AdministrationError
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.wire.constants import FRAME_METHOD
from broker.wire.frames import content_frames, frame, method_frame
from broker.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
)
from broker.wire.properties import HEADER_START, encode_header
from storage.batch import SealedBatch
from tests.security.fuzz.broker_under_test import BYSTANDER, FURNITURE, Floor, floor
from tests.security.fuzz.choices import Choices, once_in, pick
from tests.security.fuzz.fuzz_client import FRAME_MAX, SMALL_FRAMES, FuzzClient
from tests.security.fuzz.grammar import ALL_METHODS, EXCHANGES, KEYS, integer, method, method_of, name, properties

CHANNELS = (*(40 * (1,)), *(20 * (2,)), 0, 3, 65535)
STEPS_MAX = 60

POLICIES: dict[str, tuple[Any, ...]] = {
    "max-length": (0, 2, 10**30),
    "max-length-bytes": (100,),
    "message-ttl": (0, 10, 10**30),
    "expires": (10, 10**30),
    "delivery-limit": (1, 10**30),
    "overflow": ("reject-publish", "reject-publish-dlx"),
    "dead-letter-exchange": ("x", "a" * 300),
    "dead-letter-routing-key": ("q", "a" * 300),
    "dead-letter-strategy": ("at-least-once",),
    "alternate-exchange": ("y", "\udcff" * 300),
    "max-age": ("1s", "9" * 40 + "Y"),
    "stream-max-segment-size-bytes": (0,),
    "consumer-timeout": (10**30,),
}


class Scene:
    """The scene of one input: its clients, and the things that move round them."""

    def __init__(self, place: Floor, choices: Choices) -> None:
        self._floor = place
        self._choices = choices
        self._in_flight: SealedBatch | None = None
        self.clients = [self._enter()]

    def play(self) -> None:
        """Step by step to the end of the input."""
        self._floor.furnish(self._choices.number(0, (1 << len(FURNITURE)) - 1))
        for _ in range(STEPS_MAX):
            if not self._choices.more:
                break
            pick(self._choices, _STEPS)(self)
        self._land()

    def _enter(self) -> FuzzClient:
        client = FuzzClient(self._floor.sessions)
        client.shake_hands(SMALL_FRAMES, (1, 2))
        return client

    @property
    def _client(self) -> FuzzClient:
        """One of the clients, mostly one that behaves after an error; one that has come to its end is replaced."""
        at = self._choices.number(0, 4) // 4 if len(self.clients) > 1 else 0
        client = self.clients[at]
        if client.connection.ended or (client.sent_away and self._choices.number(0, 7)):
            client.drop()
            self.clients[at] = self._enter()
        elif client.closed_channels and self._choices.number(0, 7):
            for number in client.closed_channels:
                client.say(method_frame(number, ChannelCloseOk()) + method_frame(number, ChannelOpen()))
            client.closed_channels.clear()
        return self.clients[at]

    # What clients do

    def _say(self) -> None:
        client = self._client
        wire = b"".join(self._words(client) for _ in range(self._choices.number(1, 4)))
        if wire and once_in(self._choices, 64):
            at = self._choices.number(0, len(wire) - 1)
            wire = wire[:at] + self._choices.data(8) + wire[at + self._choices.number(0, 8) :]
        if once_in(self._choices, 8):
            at = self._choices.number(0, len(wire))
            client.say(wire[:at])
            wire = wire[at:]
        client.say(wire)

    def _words(self, client: FuzzClient) -> bytes:
        kind, channel = self._choices.number(0, 63), pick(self._choices, CHANNELS)
        if kind < 24:
            return method_frame(channel, method(self._choices))
        if kind < 48:
            return self._publish(channel or 1)
        if kind < 62:
            return self._settle(client, channel or 1)
        if kind == 62:
            return frame(integer(self._choices, 8), channel, self._choices.data(60))
        payload = method_of(self._choices, pick(self._choices, ALL_METHODS)).encode()
        return frame(FRAME_METHOD, channel, payload[: self._choices.number(0, len(payload))])

    def _settle(self, client: FuzzClient, channel: int) -> bytes:
        """Be done with something that was delivered, one message or all up to it."""
        tags, how = client.tags.get(channel), self._choices.number(0, 11)
        if not tags:
            return b""
        tag = pick(self._choices, tags)
        if how < 8:
            tags.remove(tag)
        if how < 6:
            return method_frame(channel, BasicAck(tag, False))
        multiple, requeue = how % 2 == 0, how % 3 == 0
        return method_frame(channel, BasicNack(tag, multiple, requeue) if how > 6 else BasicReject(tag, requeue))

    def _publish(self, channel: int) -> bytes:
        choices = self._choices
        body = bytes(choices.number(0, 5) if choices.number(0, 15) else pick(choices, (4096, 4000, 300, 5000)))
        flags = choices.number(0, 127)
        publish = BasicPublish(name(choices, EXCHANGES), name(choices, KEYS), flags & 1 == 1, flags == 127)
        header = encode_header(len(body), properties(choices))
        if once_in(choices, 64):
            header = self._broken(header)
        content = content_frames(channel, header, body, pick(choices, (FRAME_MAX, FRAME_MAX, 100)))
        if once_in(choices, 64):
            content = content[: choices.number(0, len(content))]
        return method_frame(channel, publish) + content

    def _broken(self, header: bytes) -> bytes:
        choices, size = self._choices, HEADER_START.size
        how = choices.number(0, 3)
        if how == 0:
            return HEADER_START.pack(integer(choices, 16), integer(choices, 16), integer(choices, 64)) + header[size:]
        if how == 1:
            return header[:size] + choices.data(60)
        if how == 2:
            return header[: choices.number(0, len(header))]
        return HEADER_START.pack(60, 0, integer(choices, 8)) + header[size:]

    def _raw(self) -> None:
        self._client.say(self._choices.data(300))

    def _close(self) -> None:
        self._client.say(method_frame(0, pick(self._choices, (ConnectionClose(200, "", 0, 0), ConnectionCloseOk()))))

    def _vanish(self) -> None:
        self._client.drop()

    def _join(self) -> None:
        if len(self.clients) < 2:
            self.clients.append(self._enter())

    def _read(self, *, on: bool) -> None:
        client = self._client
        if on:
            client.read_on()
        else:
            client.reading = False

    # What else happens

    def _pass_time(self) -> None:
        self._floor.core.advance(pick(self._choices, (1, 5, 10, 25, 1000, 2000, 100_000)))

    def _commit(self) -> None:
        self._land()
        self._in_flight = self._floor.core.seal()

    def _land(self) -> None:
        if self._in_flight is not None:
            batch, self._in_flight = self._in_flight, None
            self._floor.core.land(batch)

    def _hold_definitions(self) -> None:
        self._floor.definitions.holding = True

    def _settle_definitions(self) -> None:
        definitions = self._floor.definitions
        if definitions.held:
            definitions.settle()
            self._floor.core.end_turn()

    def _run_short(self, *, short: bool) -> None:
        self._floor.core.broker.alarms.set(pick(self._choices, (MEMORY, DISK)), short=short)
        self._floor.core.end_turn()

    def _set_policy(self) -> None:
        choices = self._choices
        keys = [pick(choices, tuple(POLICIES)) for _ in range(choices.number(0, 3))]
        definition = {key: pick(choices, POLICIES[key]) for key in keys}
        pattern = pick(choices, (f"^(?!{BYSTANDER})", "^[q-r]", "stream|quorum", "x"))
        try:
            self._floor.set_policy(pattern, definition, operator=bool(choices.number(0, 1)))
        except AdministrationError:
            pass  # an operator may not say so


_STEPS: tuple[Callable[[Scene], None], ...] = (
    *(40 * [Scene._say]),
    Scene._pass_time,
    Scene._pass_time,
    *(4 * [Scene._commit]),
    *(4 * [Scene._land]),
    Scene._join,
    Scene._hold_definitions,
    Scene._settle_definitions,
    Scene._settle_definitions,
    partial(Scene._run_short, short=True),
    partial(Scene._run_short, short=False),
    partial(Scene._read, on=False),
    partial(Scene._read, on=True),
    Scene._set_policy,
    Scene._set_policy,
    Scene._raw,
    Scene._close,
    Scene._vanish,
)


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    with floor() as place:

        def play(choices: Choices) -> None:
            scene = Scene(place, choices)
            try:
                scene.play()
            finally:
                for client in scene.clients:
                    client.read_on()
                place.sweep(*scene.clients)

        yield play
