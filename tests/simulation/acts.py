"""Acts of a client when it is its turn. Each act takes what it needs from chance, and does nothing if it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from broker.wire import methods
from broker.wire.field_tables import Table, from_python
from broker.wire.frames import method_frame
from broker.wire.method import Method
from tests.simulation.copies import Copy, Place, Publication
from tests.simulation.routing_rules import BINDING_KEYS, DELAYED, FANOUT, HEADERS, HEADERS_OF, TOPIC, TOPIC_KEYS
from tests.simulation.simulated_client import Channel, Client, Consumer, nothing
from tests.simulation.stream_offsets import Reading
from tests.simulation.world.opening_declares import binding_arguments
from tests.simulation.world.topology_of_seed import LATE_QUEUE, STREAM, Recipe

Act = Callable[[Client, Channel, Random], None]

NO_TABLE: Table = {}
MODES = ("confirm", "confirm", "confirm", "tx", "tx", "plain")
LARGE_MAX = 200_000
STRIKES = 0.06
"""Probability that the process dies over a client's request."""
STRIKES_AT_COMMITS = 0.25
"""The same, where it is a transaction's commit."""


def publish(client: Client, channel: Channel, chance: Random) -> None:
    """Publish a few messages in one piece, now and then in two."""
    exchange, key = _destination(client, chance)
    refusing = any(place.recipe.overflow for place in client.world.targets(exchange, key))
    if channel.mode == "tx" and (refusing or not client.free(channel)):
        return
    persistent, size = chance.random() < 0.8, chance.choice((0, 5, 5, 60, 60, 400, 4500))
    expiration = chance.choice((40, 2_000, 90_000)) if chance.random() < 0.1 and exchange != DELAYED else 0
    delay = chance.choice((100, 5_000, 7_200_000)) if exchange == DELAYED else 0
    publications = []
    for _ in range(chance.choice((1, 1, 2, 4, 9))):
        publication = Publication(client.world.next_number(), size, channel, persistent=persistent)
        publication.expiration, publication.delay, publication.target = expiration, delay, (exchange, key)
        if client.world.recipes.get(key) and client.world.recipes[key].levels:
            publication.rank = chance.randrange(client.world.recipes[key].levels)
        publications.append(publication)
    client.world.note(
        f"{client.name}.{channel.number} > publish {[p.number for p in publications]} to {exchange}/{key}"
    )
    if key == STREAM:
        _endanger(client, "messages", chance)
    late = [publications.pop()] if chance.random() < 0.05 else []
    _send(client, channel, publications)
    if late:
        _in_halves(client, channel, late[0], chance)


def publish_large(client: Client, channel: Channel, chance: Random) -> None:
    """Publish a message for which the disk may have no room: the channel is closed then, and nothing of it stays."""
    if channel.mode == "tx":
        return
    publication = Publication(client.world.next_number(), chance.choice((60_000, LARGE_MAX)), channel, persistent=True)
    publication.target = "", "plain"
    client.world.note(f"{client.name}.{channel.number} > publish large {publication.number}")
    _send(client, channel, [publication])


def _send(client: Client, channel: Channel, publications: list[Publication]) -> None:
    client.line.send_together(
        [(client.publish_frames(channel, each), partial(client.took_publish, channel, each)) for each in publications]
    )


def _destination(client: Client, chance: Random) -> tuple[str, str]:
    drawn = chance.random()
    if drawn < 0.1:
        return FANOUT, ""
    if drawn < 0.18:
        return DELAYED, LATE_QUEUE
    if drawn < 0.25:
        return "", STREAM
    if drawn < 0.32:
        return TOPIC, chance.choice(TOPIC_KEYS)
    if drawn < 0.37:
        return HEADERS, chance.choice(list(HEADERS_OF))
    names = [name for name in client.world.recipes if name != LATE_QUEUE]
    return "", chance.choice(names)


def _in_halves(client: Client, channel: Channel, publication: Publication, chance: Random) -> None:
    """Send the first part of a publish, and the rest later, or never."""
    data = client.publish_frames(channel, publication)
    at = chance.randrange(1, len(data))
    client.line.send(data[:at])
    if chance.random() < 0.2:
        client.vanish()
        return
    client.busy = True

    def rest() -> None:
        client.busy = False
        if not client.gone:
            client.line.send(data[at:], lambda: client.took_publish(channel, publication))

    client.world.agenda.after(chance.choice((1, 40, 3_000)), rest)


def ack(client: Client, channel: Channel, chance: Random) -> None:
    """Acknowledge some deliveries, one by one or all up to one."""
    tags = list(channel.out)
    if not tags:
        return
    if chance.random() < 0.3 and not (channel.read_tags or channel.readings):
        last = chance.choice(tags)
        _settle(client, channel, [(methods.BasicAck(last, True), _up_to(last, tags))], client.world.promises.acked)
        return
    picked = chance.sample(tags, min(len(tags), chance.choice((1, 1, 3, 8))))
    _settle(client, channel, [(methods.BasicAck(tag, False), [tag]) for tag in picked], client.world.promises.acked)


def give_back(client: Client, channel: Channel, chance: Random) -> None:
    """Have some deliveries put back into their queues."""
    tags, returned = list(channel.out), client.world.promises.returned
    if not tags or channel.mode == "tx":
        return
    if chance.random() < 0.3 and not (channel.read_tags or channel.readings):
        last = chance.choice(tags)
        _settle(client, channel, [(methods.BasicNack(last, True, True), _up_to(last, tags))], returned)
        return
    picked = chance.sample(tags, min(len(tags), chance.choice((1, 3))))
    _settle(client, channel, [(methods.BasicReject(tag, True), [tag]) for tag in picked], returned)


def reject(client: Client, channel: Channel, chance: Random) -> None:
    """Reject some deliveries for good."""
    tags = list(channel.out)
    if not tags or channel.mode == "tx":
        return
    picked = chance.sample(tags, min(len(tags), chance.choice((1, 3))))
    said = [(methods.BasicNack(tag, False, False), [tag]) for tag in picked]
    _settle(client, channel, said, client.world.promises.rejected)


def _up_to(last: int, tags: Sequence[int]) -> list[int]:
    return [tag for tag in tags if tag <= last]


def _settle(
    client: Client, channel: Channel, said: Sequence[tuple[Method, list[int]]], effect: Callable[[Sequence[Copy]], None]
) -> None:
    """Send methods together, each with the tags that it settles."""
    if not client.settles(channel):
        return
    tags = [tag for _, settled in said for tag in settled]
    client.world.note(f"{client.name}.{channel.number} > {said[0][0].NAME} {tags}")
    frames = [method_frame(channel.number, method) for method, _ in said]
    if channel.mode == "tx":
        if client.free(channel):
            for tag in sorted(tags):
                channel.acked[tag] = channel.out.pop(tag)
                channel.acked_since[tag] = channel.out_since.pop(tag)
            client.line.send(b"".join(frames))
        return
    effects = [_effect(client, channel, settled, effect) for _, settled in said]
    client.line.send_together(list(zip(frames, effects, strict=True)))


def _effect(
    client: Client, channel: Channel, tags: list[int], effect: Callable[[Sequence[Copy]], None]
) -> Callable[[], None]:
    """Take deliveries off the list; what to call when the broker has handled the frame that settles them."""
    copies = channel.strike(tags)
    channel.limbo += copies

    def handled() -> None:
        if client.listening(channel):
            channel.limbo = [copy for copy in channel.limbo if copy not in copies]
            channel.shed_load(tags)
            effect([copy for copy in copies if copy.out is channel])

    return handled


def commit(client: Client, channel: Channel, chance: Random) -> None:
    """Commit a transaction, or roll it back."""
    if channel.mode != "tx" or not client.free(channel) or client.world.process.short:
        return
    if chance.random() < 0.2:
        client.ask(channel, methods.TxRollback(), nothing, lambda: client.rolled_back(channel))
        return
    done: list[Publication] = []
    _endanger(client, "messages", chance, STRIKES_AT_COMMITS)

    def handled() -> None:
        if client.listening(channel):  # else it was refused, and the channel with it
            done.extend(client.committed(channel))

    def answered(_: Any) -> None:
        for publication in done:
            client.world.promises.confirmed(publication)
        client.world.promises.certain(client.transactions.pop(channel, None))

    client.ask(channel, methods.TxCommit(), answered, handled)


def get(client: Client, channel: Channel, chance: Random) -> None:
    """Ask for one message."""
    place = _some_place(client, chance)
    if place is None or not client.free(channel) or client.world.process.short:
        return
    no_ack = chance.random() < 0.3

    def answered(answer: Any) -> None:
        place.asked.remove(channel)
        if isinstance(answer, methods.BasicGetEmpty):
            place.said_empty = place.there  # else one of the same name answered, which was declared since
        else:
            method, properties, body = answer
            client.take(channel, place, method, properties, body, no_ack=no_ack)

    def handled() -> None:
        place.used = client.world.promises.now

    place.asked.append(channel)
    client.ask(channel, methods.BasicGet(place.recipe.name, no_ack), answered, handled)


def consume(client: Client, channel: Channel, chance: Random) -> None:
    """Subscribe to a queue."""
    place = _some_place(client, chance)
    if place is None or not client.free(channel) or len(channel.consumers) > 3:
        return
    if channel.prefetch_all and place.recipe.kind == "quorum":
        return
    no_ack = chance.random() < 0.2
    tag = f"c{client.world.next_number()}"
    priority = 0 if place.recipe.single_active else chance.choice((0, 0, 0, 7, -7))
    consumer = Consumer(channel, tag, place, channel.prefetch, no_ack=no_ack, priority=priority)

    def handled() -> None:
        if client.listening(channel):
            channel.consumers[tag] = consumer
            consumer.since = client.world.promises.event
            place.takers.append(consumer)
            place.had_takers = True

    table = from_python({"x-priority": priority}) if priority else NO_TABLE
    method = methods.BasicConsume(place.recipe.name, tag, False, no_ack, False, False, table)
    client.ask(channel, method, nothing, handled)


def read_stream(client: Client, channel: Channel, chance: Random) -> None:
    """Read the stream, from its beginning or from some other place."""
    stream = client.world.promises.stream
    if not client.free(channel) or channel.readings or not channel.prefetch or channel.prefetch_all:
        return
    known = len(stream.offsets)
    read_from(client, channel, chance.choice(("first", "next", chance.randrange(known) if known else "first")))


def read_from(client: Client, channel: Channel, start: int | str) -> None:
    """Read the stream from a place: first, next, or an offset."""
    stream = client.world.promises.stream
    tag = f"s{client.world.next_number()}"
    first = None if start == "next" else 0 if start == "first" else int(start)

    def answered(_: Any) -> None:
        channel.readings[tag] = Reading(stream, first, channel.prefetch)

    arguments = from_python({"x-stream-offset": start})
    client.ask(channel, methods.BasicConsume(STREAM, tag, False, False, False, False, arguments), answered)


def read_on_stream(client: Client, channel: Channel, chance: Random) -> None:
    """Acknowledge what was read, for credit."""
    tags, channel.read_tags = channel.read_tags, {}
    if not tags or not client.settles(channel) or channel.mode == "tx":
        channel.read_tags = tags
        return

    def handled(tag: int, reading: Reading) -> None:
        channel.out_since.pop(tag, None)
        reading.settled()

    frames = {tag: method_frame(channel.number, methods.BasicAck(tag, False)) for tag in tags}
    client.line.send_together([(frames[tag], partial(handled, tag, reading)) for tag, reading in tags.items()])


def cancel(client: Client, channel: Channel, chance: Random) -> None:
    """End a subscription."""
    tags = [*channel.consumers, *channel.readings]
    if tags and client.free(channel):
        tag = chance.choice(tags)
        client.ask(channel, methods.BasicCancel(tag, False), lambda _: client.forget(channel, tag))


def qos(client: Client, channel: Channel, chance: Random) -> None:
    """Limit how much may be out."""
    if not client.free(channel):
        return
    count = chance.choice((1, 2, 3, 10))
    if chance.random() < 0.2 and not any(one.place.recipe.kind == "quorum" for one in channel.consumers.values()):
        if not channel.readings:

            def limited() -> None:
                channel.prefetch_all = count

            client.ask(channel, methods.BasicQos(0, count, True), nothing, limited)
        return
    channel.prefetch = count
    client.ask(channel, methods.BasicQos(0, count, False), nothing)


def recover(client: Client, channel: Channel, chance: Random) -> None:
    """Have everything that is out put back."""
    if not client.free(channel) or channel.mode == "tx" or channel.read_tags or channel.readings:
        return

    def handled() -> None:
        tags = list(channel.out)
        client.world.promises.returned(channel.strike(tags))
        channel.shed_load(tags)

    client.ask(channel, methods.BasicRecover(True), nothing, handled)


def purge(client: Client, channel: Channel, chance: Random) -> None:
    """Empty a queue."""
    place = _some_place(client, chance)
    if place is None or place.recipe.fixed or place.blurred or not client.free(channel) or channel.held:
        return
    gone: list[Copy] = []

    def handled() -> None:
        channel.purging_since = client.world.times.now
        gone.extend(client.world.promises.purged(place))

    def answered(_: Any) -> None:
        channel.purging_since = 0
        for copy in gone:
            copy.left = 0

    client.ask(channel, methods.QueuePurge(place.recipe.name, False), answered, handled)


def declare(client: Client, channel: Channel, chance: Random) -> None:
    """Declare a queue, whether it is there or not."""
    if not client.free(channel):
        return
    _declare(client, channel, chance.choice(list(client.world.recipes.values())))


def restore(client: Client, channel: Channel, chance: Random) -> None:
    """Declare a queue that is not there."""
    missing = [recipe for name, recipe in client.world.recipes.items() if name not in client.world.promises.named]
    if missing and client.free(channel):
        _endanger(client, "definitions", chance)
        _declare(client, channel, chance.choice(missing))


def _declare(client: Client, channel: Channel, recipe: Recipe) -> None:
    def answered(_: Any) -> None:
        client.world.look()
        place = client.world.promises.named.get(recipe.name)
        if place is not None:
            place.sealed, place.used = True, client.world.promises.now

    table = from_python(recipe.arguments())
    method = methods.QueueDeclare(recipe.name, False, recipe.durable, False, recipe.auto_delete, False, table)
    client.ask(channel, method, answered)


def bind(client: Client, channel: Channel, chance: Random) -> None:
    """Bind a queue to an exchange, or unbind it."""
    place = _some_place(client, chance)
    if place is None or not client.free(channel) or client.world.process.short:
        return
    exchange = chance.choice(list(BINDING_KEYS))
    key, promises, name = chance.choice(BINDING_KEYS[exchange]), client.world.promises, place.recipe.name
    binding, table = (place.number, exchange, key), binding_arguments(exchange, key)
    if binding in promises.bound and chance.random() < 0.5:
        unbind = methods.QueueUnbind(name, exchange, key, table)
        client.ask(channel, unbind, nothing, lambda: promises.bound.discard(binding))
    else:
        method = methods.QueueBind(name, exchange, key, False, table)
        client.ask(channel, method, lambda _: promises.bound.add(binding) if place.there else None)


def delete(client: Client, channel: Channel, chance: Random) -> None:
    """Delete a queue."""
    place = _some_place(client, chance)
    if place is None or place.recipe.fixed or not client.free(channel):
        return
    if client.world.process.short:
        return

    _endanger(client, "definitions", chance)

    def handled() -> None:
        place.ending = True
        client.world.promises.unbound(place.number)
        client.world.look()

    def answered(_: Any) -> None:
        place.ended = True

    client.ask(channel, methods.QueueDelete(place.recipe.name, False, False, False), answered, handled)


def close_channel(client: Client, channel: Channel, chance: Random) -> None:
    """Close a channel, and open another one in its place."""
    if not client.free(channel) or channel.held:
        return

    mode = chance.choice(MODES)

    def handled() -> None:
        channel.closing = True
        channel.give_up(client.all_out(channel))

    def answered(_: Any) -> None:
        client.world.agenda.after(0, lambda: client.reopen(channel, mode))

    client.ask(channel, methods.ChannelClose(200, "", 0, 0), answered, handled)


def acknowledge_twice(client: Client, channel: Channel, chance: Random) -> None:
    """Acknowledge what was never delivered: the channel is closed for it."""
    if client.free(channel):
        channel.at_fault = True
        client.send(channel.number, methods.BasicAck(1 << 40, False))


def stop_reading(client: Client, channel: Channel, chance: Random) -> None:
    """Take nothing from the socket for a while."""
    if client.line.reading:
        client.line.stop_reading()
        client.world.agenda.after(chance.choice((50, 2_000, 60_000)), client.read_on)


def fall_silent(client: Client, channel: Channel, chance: Random) -> None:
    """Say nothing and read nothing from now on; the broker has to find out."""
    client.silent = True
    client.line.stop_reading()


def vanish(client: Client, channel: Channel, chance: Random) -> None:
    """Be gone without a word."""
    client.vanish()


def close(client: Client, channel: Channel, chance: Random) -> None:
    """Close the connection as one should."""
    if client.free(channel):
        client.closing = True
        client.send(0, methods.ConnectionClose(200, "", 0, 0), client.gave_up)


def _endanger(client: Client, store: str, chance: Random, strikes: float = STRIKES) -> None:
    """Have the process die, now and then, while what is asked for next is on its way to disk."""
    if chance.random() < strikes and not client.world.calm:
        client.world.disk.deadly = store


def _some_place(client: Client, chance: Random) -> Place | None:
    places = [place for place in client.world.promises.named.values() if place.recipe.kind != "stream" and place.there]
    return chance.choice(places) if places else None


ACTS: list[tuple[int, Act]] = [
    (40, publish),
    (1, publish_large),
    (40, ack),
    (10, give_back),
    (7, reject),
    (9, commit),
    (10, get),
    (14, consume),
    (9, read_stream),
    (12, read_on_stream),
    (3, cancel),
    (5, qos),
    (1, recover),
    (3, purge),
    (5, declare),
    (3, restore),
    (4, bind),
    (1, delete),
    (2, close_channel),
    (1, acknowledge_twice),
    (2, stop_reading),
    (1, fall_silent),
    (1, vanish),
    (1, close),
]
