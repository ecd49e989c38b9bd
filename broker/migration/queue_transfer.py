"""Moving the messages of one queue to the queue of the same name at the target, in order and unchanged.

A message is published to the default exchange if it came from there, and otherwise, with its own routing key, to an
exchange bound to this queue alone: so its headers CC and BCC make no copies. That exchange is declared again for each
queue; the next migration deletes one that a killed migration has left.

A stream keeps its messages: they are copied, into an empty stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache, partial

import trio

from broker.client.client_state import ClientError, ClosedByBroker
from broker.client.link import CHANNEL, ChannelClosed, Link, connect
from broker.client.move_messages import AckMode, Transfer
from broker.migration.migrating_brokers import MigratedQueue, MigratingBroker
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.field_tables import from_python
from broker.wire.frames import method_frame
from broker.wire.properties import decode_properties, encode_header

PROPERTIES = {"product": "leveret migrate", "connection_name": "leveret migrate"}
EXCHANGE = "leveret.migrate"
"""Exchange bound to the queue that is being moved, and to no other."""
COUNTS = ("x-delivery-count", "x-acquired-count")
"""Headers that a quorum queue adds to redelivered messages; the second one since RabbitMQ 4."""
OFFSET = "x-stream-offset"
STREAM = "stream"
ADDED = {"quorum": COUNTS, STREAM: (OFFSET,)}
"""Headers that a type of queue adds to deliveries."""
LOOK_SECONDS = 0.2
PROBE_SECONDS = 1.0
END_SECONDS = 5.0
"""Time without a message after which a stream is at its end: RabbitMQ counts more messages than it has."""
STALL_SECONDS = 60.0
"""Time without a message after which another consumer must have the rest."""


async def counted(rows: list[MigratedQueue], source: MigratingBroker) -> list[MigratedQueue]:
    """Count the ready messages of queues of one virtual host; missing queues are left out.

    Raises ClientError.
    """
    found = []
    link = await connect(source.endpoint(rows[0].vhost), PROPERTIES, source.enter)
    try:
        for row in rows:
            declare = methods.QueueDeclare(row.name, True, False, False, False, False, {})
            try:
                ready = (await link.call(declare, methods.QueueDeclareOk)).message_count
                found.append(row._replace(ready=ready))
            except ChannelClosed:
                await link.call(methods.ChannelOpen(), methods.ChannelOpenOk)
    finally:
        await link.close()
    return found


async def is_empty(row: MigratedQueue, side: MigratingBroker) -> bool:
    """True if a stream has no messages; its message count may be some seconds old. Raises ClientError."""
    link = await connect(side.endpoint(row.vhost), PROPERTIES, side.enter)
    try:
        await link.call(methods.BasicQos(0, 1, False), methods.BasicQosOk)
        await link.call(_consume(row), methods.BasicConsumeOk)
        with trio.move_on_after(PROBE_SECONDS):
            await link.receive()
            return False
        return True
    finally:
        await link.close()


def _consume(row: MigratedQueue) -> methods.BasicConsume:
    arguments = from_python({OFFSET: "first"} if row.type == STREAM else {})
    return methods.BasicConsume(row.name, "", False, False, False, False, arguments)


async def move(
    row: MigratedQueue, source: MigratingBroker, target: MigratingBroker, window: int, on_moved: Callable[[int], None]
) -> int:
    """Move messages until the queue is empty; returns their number. Raises ClientError.

    `on_moved` is called with the number moved so far.
    """
    moved = 0
    destination = await connect(target.endpoint(row.vhost), PROPERTIES, target.enter)
    try:
        await _prepare(destination, row)
        forwarding = UnchangedForwarding(row)
        while found := await _pass(row, source, destination, forwarding, window, partial(_add, on_moved, moved)):
            moved += found
            if row.type == STREAM:
                break
        await _delete_exchange(destination)
    finally:
        await destination.close()
    return moved


def _add(on_moved: Callable[[int], None], before: int, now: int) -> None:
    on_moved(before + now)


async def _prepare(link: Link, row: MigratedQueue) -> None:
    await _delete_exchange(link)
    declare = methods.ExchangeDeclare(EXCHANGE, "fanout", False, False, True, False, False, {})
    await link.call(declare, methods.ExchangeDeclareOk)
    await link.call(methods.QueueBind(row.name, EXCHANGE, "", False, {}), methods.QueueBindOk)
    await link.call(methods.ConfirmSelect(False), methods.ConfirmSelectOk)


async def _delete_exchange(link: Link) -> None:
    await link.call(methods.ExchangeDelete(EXCHANGE, False, False), methods.ExchangeDeleteOk)


async def clean(vhost: str, target: MigratingBroker) -> None:
    """Delete the exchange that a killed migration has left in a virtual host. Raises ClientError."""
    try:
        link = await connect(target.endpoint(vhost), PROPERTIES, target.enter)
    except ClosedByBroker:  # the user may not go there, so nothing has been left
        return
    try:
        await _delete_exchange(link)
    finally:
        await link.close()


async def _pass(
    row: MigratedQueue,
    source: MigratingBroker,
    destination: Link,
    forwarding: UnchangedForwarding,
    window: int,
    on_moved: Callable[[int], None],
) -> int:
    """Move as many messages as lie there now; how many."""
    link = await connect(source.endpoint(row.vhost), PROPERTIES, source.enter)
    try:
        declare = methods.QueueDeclare(row.name, True, False, False, False, False, {})
        ready = (await link.call(declare, methods.QueueDeclareOk)).message_count
        if not ready:
            return 0
        await link.call(methods.BasicQos(0, window, False), methods.BasicQosOk)
        await link.call(_consume(row), methods.BasicConsumeOk)
        transfer = Transfer(link, destination, forwarding, AckMode.ON_CONFIRM, ready, must_arrive=True)
        await _run(transfer, partial(_watch, row, transfer, destination, on_moved))
        on_moved(transfer.settled)
        return transfer.settled
    finally:
        await link.close()


async def _run(transfer: Transfer, watch: Callable[[], Awaitable[None]]) -> None:
    failure: ClientError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        try:
            await transfer.run()
        except ClientError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _watch(row: MigratedQueue, transfer: Transfer, destination: Link, on_moved: Callable[[int], None]) -> None:
    """Tell how far it has come, and end it when nothing comes any more."""
    last, since = 0, trio.current_time()
    while True:
        await trio.sleep(LOOK_SECONDS)
        on_moved(transfer.settled)
        if transfer.settled != last or destination.connection.blocked:
            last, since = transfer.settled, trio.current_time()
        silent = trio.current_time() - since
        if row.type == STREAM and silent > END_SECONDS and not transfer.in_flight:
            transfer.finish()
        if silent > STALL_SECONDS:
            why = "another consumer may hold them, or be the single active one"
            transfer.fail(ClientError(f"no message has come for {STALL_SECONDS:g} seconds; {why}"))


class UnchangedForwarding:
    """Every message as it came."""

    def __init__(self, row: MigratedQueue) -> None:
        self._queue = row.name
        self._added = ADDED.get(row.type, ())
        self._frame = lru_cache(256)(self._publish_frame)

    def __call__(self, command: Command) -> tuple[bytes, bytes]:
        """The frame of basic.publish and the payload of the header frame for a delivery."""
        method, header = command.method, command.header_payload
        assert isinstance(method, methods.BasicDeliver)
        assert header is not None
        direct = not method.exchange and method.routing_key == self._queue and b"CC" not in header
        if self._added and self._added[0].encode() in header:
            header = _without(self._added, header, len(command.body))
        return self._frame(method.routing_key, direct), header

    def _publish_frame(self, key: str, direct: bool) -> bytes:
        return method_frame(CHANNEL, methods.BasicPublish("" if direct else EXCHANGE, key, True, False))


def _without(names: tuple[str, ...], header: bytes, size: int) -> bytes:
    properties = decode_properties(header)
    if properties.headers is None or names[0] not in properties.headers:
        return header
    kept = {name: field for name, field in properties.headers.items() if name not in names}
    return encode_header(size, properties._replace(headers=kept or None))
