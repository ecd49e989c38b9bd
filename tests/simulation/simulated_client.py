"""A client's end of a connection: what it has asked for, what it was told, what it has to settle.

It speaks the protocol in bytes, and passes on to the promises what the broker has taken in and what it has said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from broker.wire import methods
from broker.wire.frames import method_frame
from broker.wire.method import Method
from harness.clients.amqp_peer import AmqpPeer, Login, Message, publish_frames
from tests.simulation.copies import Broken, Copy, Group, Place, Publication
from tests.simulation.promises import headers_of
from tests.simulation.routing_rules import HEADERS_OF
from tests.simulation.stream_offsets import Reading
from tests.simulation.world.process import OUTPUT_BYTES
from tests.simulation.world.wire import SimulatedSocket

if TYPE_CHECKING:
    from tests.simulation.world.world import World


HEARTBEAT_SECONDS = 60


class Consumer:
    """A subscription of a channel."""

    def __init__(self, channel: Channel, tag: str, place: Place, prefetch: int, *, no_ack: bool, priority: int) -> None:
        self.channel = channel
        self.tag = tag
        self.place = place
        self.prefetch = prefetch
        self.no_ack = no_ack
        self.priority = priority
        self.since = 0
        """The event in which it began, or had credit again, at the latest."""
        self.out: dict[int, Copy] = {}

    @property
    def late(self) -> bool:
        return self.channel.late

    @property
    def ended(self) -> bool:
        return not self.channel.client.listening(self.channel)

    @property
    def hungry_enough(self) -> bool:
        """It had credit before this event began, and its connection is not filled by what it was sent in this one."""
        client = self.channel.client
        return self.hungry and self.since < client.world.promises.event and client.heard_bytes < OUTPUT_BYTES // 2

    @property
    def holds(self) -> bool:
        return not self.late and any(copy.out is self.channel for copy in self.out.values())

    @property
    def hungry(self) -> bool:
        channel = self.channel
        if channel.closing or not channel.client.line.reading or channel.late:
            return False
        if channel.prefetch_all:
            return False  # what counts for it is out with cancelled consumers too
        return self.no_ack or not self.prefetch or len(self.out) < self.prefetch


class Channel:
    """A channel as its client sees it. `mode` is confirm, tx or plain."""

    def __init__(self, client: Client, number: int, mode: str) -> None:
        self.client = client
        self.number = number
        self.mode = mode
        self.closing = False
        self.published = 0
        self.unconfirmed: dict[int, Publication] = {}
        self.held: list[Publication] = []
        self.consumers: dict[str, Consumer] = {}
        self.readings: dict[str, Reading] = {}
        self.expected: deque[Callable[[Any], None]] = deque()
        self.out: dict[int, Copy] = {}
        self.out_since: dict[int, int] = {}
        """Since when a delivery has been out in the broker's eyes: what says otherwise may lie unread in a pause."""
        self.owners: dict[int, Consumer] = {}
        self.read_tags: dict[int, Reading] = {}
        self.sent: list[Publication] = []
        self.acked: dict[int, Copy] = {}
        self.acked_since: dict[int, int] = {}
        self.limbo: list[Copy] = []
        """Settled by a client whose word the broker has not taken in yet."""
        self.at_fault = False
        self.may_be_refused = False
        """Its commit was for a queue that may refuse it."""
        self.purging_since = 0
        """Moment at which an unanswered purge was handled; 0 if there is none."""
        self.rolled_back_at = 0
        self.prefetch = 0
        self.prefetch_all = 0

    @property
    def late(self) -> bool:
        """Not everything that it was sent has been seen, that it was closed perhaps."""
        line = self.client.line
        return line.closed or line.waiting > 0 or line.catching_up or not self.client.listening(self)

    def strike(self, tags: Iterable[int]) -> list[Copy]:
        """Take deliveries off the list; those that are still out with this channel."""
        struck = []
        for tag in tags:
            copy = self.out.pop(tag)
            if copy.out is self:
                struck.append(copy)
        return struck

    def shed_load(self, tags: Iterable[int]) -> None:
        """The broker has taken in what has become of deliveries: they are not out, their consumers have credit."""
        for tag in tags:
            self.out_since.pop(tag, None)
            owner = self.owners.pop(tag, None)
            if owner is not None:
                owner.out.pop(tag, None)
                owner.since = self.client.world.promises.event

    def end_consumers(self) -> None:
        """The channel is over, and its consumers with it."""
        for consumer in self.consumers.values():
            if consumer in consumer.place.takers:
                consumer.place.takers.remove(consumer)
                consumer.place.used = self.client.world.promises.now
        self.consumers.clear()

    def give_up(self, copies: Iterable[Copy]) -> None:
        """The channel is over: consumers end, deliveries and what waited come to nothing."""
        self.end_consumers()
        for place in self.client.world.promises.places.values():
            place.asked = [holder for holder in place.asked if holder is not self]
        promises = self.client.world.promises
        promises.returned([copy for copy in copies if copy.out is self])
        self.drop_held()

    # Publishes that the broker has read and had to keep: publishers wait, or something before them does

    def release_held(self) -> None:
        """All of them have been handled."""
        for publication in self.held:
            if self.mode == "tx":
                self.obey_some_held()
                publication.held = False
            else:
                self.client.world.promises.released(publication)
        self.held.clear()

    def obey_some_held(self) -> None:
        """Some of them may have been handled, nobody knows which: they went where publishes go now, or went before."""
        world = self.client.world
        for publication in self.held:
            if self.mode == "tx":
                now = {place.recipe.name for place in world.targets(*publication.target)}
                publication.perhaps |= now.symmetric_difference(publication.reached)
            else:
                world.promises.loosened(publication)

    def drop_held(self) -> None:
        """The channel is over, and those that have not been handled come to nothing."""
        if self.mode != "tx":
            self.client.world.promises.dropped(self.held)
        self.held.clear()


class Client:
    """One connection and its channels."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.channels: dict[int, Channel] = {}
        self.opened = False
        self.closing = False
        self.gone = False
        self.silent = False
        """It is there, and does nothing any more, as if its cable were cut."""
        self.busy = False
        """Half a publish is sent."""
        self.transactions: dict[Channel, Group] = {}
        self._peer = AmqpPeer()
        self._heard = (0, 0)
        self.line = SimulatedSocket(world.process, self._take, self._ended)
        for data in Login(heartbeat=HEARTBEAT_SECONDS).at_once():
            self.line.send(data)

    @property
    def heard_bytes(self) -> int:
        """Bytes received in this event."""
        event, size = self._heard
        return size if event == self.world.promises.event else 0

    # To the broker

    def send(self, channel: int, method: Method, handled: Callable[[], None] | None = None) -> None:
        """Send a method; `handled` is called when the broker has taken it in, its turn not yet over."""
        self.line.send(method_frame(channel, method), handled)

    def ask(
        self,
        channel: Channel,
        method: Method,
        answered: Callable[[Any], None],
        handled: Callable[[], None] | None = None,
    ) -> None:
        """Send a method that is answered."""
        self.world.note(f"{self.name}.{channel.number} > {_told(method, b'')}")
        channel.expected.append(answered)
        self.send(channel.number, method, handled)

    def open(self, number: int, mode: str) -> Channel:
        """Open a channel, in a mode."""
        channel = Channel(self, number, mode)
        if self.gone or self.closing:
            return channel
        self.channels[number] = channel
        self.ask(channel, methods.ChannelOpen(), nothing)
        if mode == "confirm":
            self.ask(channel, methods.ConfirmSelect(False), nothing)
        elif mode == "tx":
            self.ask(channel, methods.TxSelect(), nothing)
        return channel

    def reopen(self, channel: Channel, mode: str) -> None:
        """Open a channel in the place of one that is closed."""
        self._once_whole(lambda: self.open(channel.number, mode))

    def _once_whole(self, action: Callable[[], None]) -> None:
        """Do something, but not in the middle of a frame."""
        if self.busy and not self.gone:
            self.world.agenda.after(1, lambda: self._once_whole(action))
        else:
            action()

    def free(self, channel: Channel) -> bool:
        """The broker handles at once what is sent on this channel, and there is nothing that the client has not
        seen."""
        if self.gone or self.closing or channel.closing or self.line.waiting or not self.line.taken_in:
            return False
        theirs = self.line.connection.channels.get(channel.number)
        return theirs is not None and theirs.free and self.line.readable()

    def listening(self, channel: Channel) -> bool:
        """The broker has this channel, and does not throw away what is sent on it."""
        theirs = self.line.connection.channels.get(channel.number)
        return theirs is not None and not theirs.closing and not self.line.connection.ended

    def settles(self, channel: Channel) -> bool:
        """The broker handles an acknowledgement on this channel as soon as it has read it.

        It passes by publishes while memory or disk run short. Those that are still held after that, because the client
        does not read, it waits for; so it has to be read now, before that can have come about.
        """
        if self.closing or not self.listening(channel) or not self.line.taken_in:
            return False
        theirs = self.line.connection.channels[channel.number]
        return theirs.free or (not theirs.gates and self.world.process.short and self.line.readable())

    def publish_frames(self, channel: Channel, publication: Publication) -> bytes:
        """The frames of a publish."""
        exchange, key = publication.target
        return publish_frames(
            publication.body,
            exchange=exchange,
            key=key,
            channel=channel.number,
            delivery_mode=2 if publication.persistent else 1,
            priority=publication.rank or None,
            expiration=str(publication.expiration) if publication.expiration else None,
            headers={"x-delay": publication.delay} if publication.delay else HEADERS_OF.get(key),
        )

    def took_publish(self, channel: Channel, publication: Publication) -> None:
        """The broker has taken a publish in: at once, or to be held while publishers wait."""
        if not self.listening(channel):
            return
        publication.held = not self.line.connection.channels[channel.number].free
        if publication.held:
            channel.held.append(publication)
        targets = self.world.targets(*publication.target)
        if channel.mode == "tx":
            channel.sent.append(publication)
            publication.reached = {place.recipe.name for place in targets}
            return
        channel.published += 1
        if channel.mode == "confirm":
            channel.unconfirmed[channel.published] = publication
        self.world.promises.published(publication, targets)

    def committed(self, channel: Channel) -> list[Publication]:
        """The broker has taken in tx.commit: the transaction holds, and is on its way to disk as one."""
        world = self.world
        group = self.transactions[channel] = Group(world.process.batch)
        publications, channel.sent = channel.sent, []
        named = world.promises.named
        reached = {name for publication in publications for name in publication.reached | publication.perhaps}
        channel.may_be_refused = any(named[name].recipe.overflow for name in reached if name in named)
        for publication in publications:
            certain, perhaps = publication.reached - publication.perhaps, publication.perhaps
            world.promises.published(publication, [named[name] for name in sorted(certain) if name in named], group)
            world.promises.strayed(publication, [named[name] for name in sorted(perhaps) if name in named])
        acked, channel.acked = channel.acked, {}
        world.promises.acked([copy for copy in acked.values() if copy.out is channel], group)
        channel.shed_load(acked)
        channel.acked_since.clear()
        return publications

    def rolled_back(self, channel: Channel) -> None:
        """The broker has taken in tx.rollback: nothing has become of it."""
        channel.sent.clear()
        channel.out = dict(sorted({**channel.out, **channel.acked}.items()))
        channel.out_since.update(channel.acked_since)
        channel.acked.clear()
        channel.acked_since.clear()
        channel.rolled_back_at = self.world.times.now

    def all_out(self, channel: Channel) -> list[Copy]:
        """Return the channel's unacknowledged copies, in the broker's eyes."""
        return [*channel.out.values(), *channel.acked.values(), *channel.limbo]

    def vanish(self) -> None:
        """Be gone without a word."""
        self.world.note(f"{self.name} vanishes")
        self.gone = True
        self.line.drop(self.gave_up)

    def read_on(self) -> None:
        """Take what has piled up."""
        if not (self.gone or self.silent):
            self.line.read_on()

    def gave_up(self) -> None:
        """The connection is over, and everything that it held with it."""
        for channel in self.channels.values():
            channel.end_consumers()  # all of them before anything looks at which queues are left
        for channel in self.channels.values():
            channel.give_up(self.all_out(channel))

    # From the broker

    def _ended(self) -> None:
        if not self.gone:
            self.gave_up()
            self.gone = True

    def _take(self, data: bytes) -> None:
        event = self.world.promises.event
        self._heard = (event, len(data) + (self._heard[1] if self._heard[0] == event else 0))
        for number, item in self._peer.decode(data):
            if isinstance(item, Message):
                self._hear(number, item.method, item.properties, item.body)
            else:
                self._hear(number, item, None, b"")

    def _hear(self, number: int, method: Method, properties: Any, body: bytes) -> None:
        if number == 0:
            self.world.note(f"{self.name} < {method.NAME}")
            self._hear_of_the_connection(method)
            return
        self.world.note(f"{self.name}.{number} < {_told(method, body)}")
        channel = self.channels[number]
        if channel.closing and not isinstance(method, methods.ChannelCloseOk):
            return
        match method:
            case methods.BasicDeliver():
                self._hear_delivery(channel, method, properties, body)
            case methods.BasicGetOk():
                channel.expected.popleft()((method, properties, body))
            case methods.BasicAck() | methods.BasicNack():
                self._hear_confirm(channel, method)
            case methods.BasicCancel():
                self.forget(channel, method.consumer_tag)
            case methods.ChannelClose():
                self._hear_close(channel, method)
            case methods.BasicReturn():
                pass
            case _:
                channel.expected.popleft()(method)

    def _hear_of_the_connection(self, method: Method) -> None:
        if isinstance(method, methods.ConnectionOpenOk):
            self.opened = True
        elif isinstance(method, methods.ConnectionClose):
            self.world.closed(self, method)
            self.gave_up()
            self.closing = True
            self.world.agenda.after(0, lambda: self._once_whole(lambda: self.send(0, methods.ConnectionCloseOk())))

    def _hear_delivery(self, channel: Channel, method: methods.BasicDeliver, properties: Any, body: bytes) -> None:
        reading = channel.readings.get(method.consumer_tag)
        if reading is not None:
            reading.delivered(properties, body)
            channel.read_tags[method.delivery_tag] = reading
            channel.out_since[method.delivery_tag] = self.line.said_since
            return
        consumer = channel.consumers[method.consumer_tag]
        consumer.place.check_served(consumer)
        if not self.line.catching_up:
            self.world.promises.served[consumer.place, consumer] = None
        if consumer.prefetch and not consumer.no_ack and len(consumer.out) >= consumer.prefetch:
            raise Broken(f"consumer {consumer.tag} holds more than its prefetch of {consumer.prefetch}")
        origin, _ = headers_of(properties)
        if channel.late and self.world.promises.was_taken_back(consumer.place, body, origin, channel):
            return
        copy = self.take(channel, consumer.place, method, properties, body, no_ack=consumer.no_ack)
        if not consumer.no_ack:
            channel.owners[method.delivery_tag] = consumer
            consumer.out[method.delivery_tag] = copy
            held = sum(len(each.out) for each in channel.consumers.values() if not each.no_ack)
            if channel.prefetch_all and channel.mode != "tx" and held > channel.prefetch_all:
                raise Broken(f"channel {self.name}.{channel.number} holds more than {channel.prefetch_all}")

    def take(self, channel: Channel, place: Place, method: Any, properties: Any, body: bytes, *, no_ack: bool) -> Copy:
        """A message has come for this channel, and is out with it from now on unless nobody has to acknowledge it."""
        world = self.world
        origin, reason = headers_of(properties)
        copy = world.promises.delivered(
            place,
            body,
            origin,
            reason,
            redelivered=method.redelivered,
            late=self.line.catching_up,
            channel=channel,
        )
        if no_ack:
            world.promises.acked([copy])
        else:
            channel.out[method.delivery_tag] = copy
            channel.out_since[method.delivery_tag] = self.line.said_since
        return copy

    def _hear_confirm(self, channel: Channel, method: methods.BasicAck | methods.BasicNack) -> None:
        waiting = channel.unconfirmed
        tags = [tag for tag in waiting if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for tag in tags:
            if tag not in waiting:
                raise Broken(f"{self.name}.{channel.number}: publish {tag} is answered twice, or never was")
            publication = waiting.pop(tag)
            if isinstance(method, methods.BasicAck):
                self.world.promises.confirmed(publication)
            else:
                self.world.promises.refused(publication)

    def forget(self, channel: Channel, tag: str) -> None:
        """A subscription has ended; what it was given stays out."""
        channel.readings.pop(tag, None)
        consumer = channel.consumers.pop(tag, None)
        if consumer is not None and consumer in consumer.place.takers:
            consumer.place.takers.remove(consumer)
            consumer.place.former.append(consumer)
            consumer.place.used = self.world.promises.now

    def _hear_close(self, channel: Channel, method: methods.ChannelClose) -> None:
        self.world.closed(self, method, channel)
        consumed = [consumer.place for consumer in channel.consumers.values()]
        copies = [copy for copy in self.all_out(channel) if copy.place in consumed]
        channel.give_up(copies)
        channel.closing = True
        rest = [copy for copy in self.all_out(channel) if copy.place not in consumed]

        def answered() -> None:
            channel.give_up(rest)
            self.world.agenda.after(0, lambda: self.reopen(channel, channel.mode))

        def answer() -> None:
            self.send(channel.number, methods.ChannelCloseOk(), answered)

        self.world.agenda.after(0, lambda: self._once_whole(answer))


def nothing(_: Any) -> None:
    """There is nothing to learn from this answer."""


def _told(method: Method, body: bytes) -> str:
    said = " ".join(f"{getattr(method, name)!r}" for name in getattr(method, "__slots__", ()))
    return f"{method.NAME} {said} {body[:12]!r}"
