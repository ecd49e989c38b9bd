"""Leveret's own routes, under /api/leveret, for functions of the web page that RabbitMQ's API has no route for."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from broker.entities.queues.moving import move
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.insight import crash_preview, held_publishers, live_trace, stream_reader
from broker.management.insight.commit_histograms import commit_history, commits
from broker.management.insight.stream_reader import StreamRead
from broker.management.resources import Resource, resource
from broker.management.responses import JsonResponse, Problem, bad_request, in_json
from broker.management.routes.queue_routes import queue_of
from broker.session.channel.permissions import Access
from broker.session.direct_session import Refused
from broker.wire.amqp_errors import ChannelException, reply_text

MOVED_MAX = 1000
"""Messages that one request moves. For more the client sends further requests, and may stop between them."""
STEP_MESSAGES, STEP_BYTES = 250, 1 << 20
"""Messages and bytes that are moved in one turn, and so in one batch."""
READ_MAX = 1000
PAYLOAD_BYTES_MAX = 1 << 20


async def list_permissions(call: ApiCall) -> Response:
    """List the permissions of the user itself; those of others are for administrators."""
    granted = call.broker.users.permissions.items()
    return in_json([{"vhost": vhost, **each._asdict()} for (vhost, user), each in granted if user == call.account.name])


async def show_permissions(call: ApiCall) -> Response:
    """Show the rights of the user on a queue or exchange, and its right to publish to the default exchange."""
    access, name = _access(call), call.names["name"]
    return in_json(
        {
            "configure": _allowed(lambda: access.configure_queue(name)),
            "write": _allowed(lambda: access.write_queue(name)),
            "read": _allowed(lambda: access.read_queue(name)),
            "publish": _allowed(lambda: access.write_exchange("")),
        }
    )


def _access(call: ApiCall) -> Access:
    return call.api.registry.routes(call.account.name, call.vhost.name).access


def _allowed(check: Callable[[], None]) -> bool:
    try:
        check()
    except ChannelException:
        return False
    return True


async def show_commits(call: ApiCall) -> Response:
    """Show the histograms of commits, and the history that `node_stats_age` and `node_stats_incr` ask for."""
    history, ages = call.history_query
    past = {} if ages.node_stats is None else {"history": commit_history(history.sampler, ages.node_stats)}
    return in_json(commits(call.broker) | past)


async def show_alarms(call: ApiCall) -> Response:
    """Show the memory and disk alarms, and the connections that they hold back."""
    call.api.update_alarms()
    return in_json(held_publishers.alarms(call.api))


async def show_shipping(call: ApiCall) -> Response:
    """Show how far the second place is behind; `{}` without one."""
    return in_json(call.api.status().get("ship", {}))


async def show_unconfirmed(call: ApiCall) -> Response:
    """Show the messages that a crash at this moment would lose."""
    return in_json(await crash_preview.unconfirmed(call.api))


async def move_messages(call: ApiCall) -> Response:
    """Move messages to another queue of the virtual host; answered with their count when they are on disk there.

    The user needs the same permissions as over AMQP: to read the queue, and to write to the default exchange.
    """
    fields = await call.fields()
    fields.require("to", "count")
    count = min(fields.number("count"), MOVED_MAX)
    source, target = _ends(call, fields.short_text("to"))
    moved = 0
    while moved < count and not (source.deleted or target.deleted):
        await _ready(call, source)
        some = move(source, target, min(STEP_MESSAGES, count - moved), STEP_BYTES)
        await call.api.administration.written()  # one batch after the other: the disk sets the pace
        moved += some
        if not some:
            break
    return in_json({"moved": moved})


def _ends(call: ApiCall, to: str) -> tuple[OrderedQueue, Queue]:
    access, vhost = _access(call), call.vhost
    queue_of(call)
    try:
        source, target = vhost.queue(call.names["queue"], None), vhost.queue(to, None)
        access.read_queue(source.name)
        access.write_exchange("")
    except ChannelException as error:
        raise Refused(error.code, reply_text(error.code, error.text)) from None
    if not isinstance(source, OrderedQueue):
        raise bad_request(f"{source.name} is a stream: its messages stay")
    if source is target:
        raise bad_request("the messages are there already")
    return source, target


async def _ready(call: ApiCall, source: OrderedQueue) -> None:
    """Wait until no other operation on the queue is running. Raises Problem 503 during an alarm."""
    call.api.update_alarms()
    if call.broker.alarms.raised:
        raise Problem(503, "blocked", f"publishers are blocked: {call.broker.alarms.reason}")
    while not source.deleted and (busy := source.busy()) is not None:
        call.api.administration.end_turn()
        await call.api.administration.settled(busy)


async def read_stream(call: ApiCall) -> Response:
    """Read messages of a stream from an offset on: `first`, `last`, a number, or an interval such as `5m`."""
    fields = await call.fields()
    fields.require("offset", "count")
    stream, offset = queue_of(call), fields.values["offset"]
    if not isinstance(stream, Stream):
        raise bad_request(f"{stream.name} is not a stream")
    if not isinstance(offset, int | str) or isinstance(offset, bool):
        raise bad_request(["not_an_offset", offset])
    count, truncate = fields.number("count"), fields.number("truncate", PAYLOAD_BYTES_MAX)
    if not 1 <= count <= READ_MAX or not 0 <= truncate <= PAYLOAD_BYTES_MAX:
        raise bad_request(f"count is a number from 1 to {READ_MAX}, truncate from 0 to {PAYLOAD_BYTES_MAX}")
    wanted = StreamRead(offset, count, truncate, fields.text("encoding", "auto") == "base64")
    taken = await stream_reader.read(call, stream, wanted)
    return JsonResponse(taken.pieces())


async def trace(call: ApiCall) -> Response:
    """Trace publishes and deliveries in a virtual host live; `pattern` matches routing keys of the firehose."""
    return await live_trace.listen(call, call.parameters.get("pattern") or "#")


RESOURCES: list[Resource] = [
    resource("/api/leveret/permissions", GET=(Tag.ANY, list_permissions)),
    resource("/api/leveret/permissions/{vhost}/{name}", in_vhost=True, GET=(Tag.ANY, show_permissions)),
    resource("/api/leveret/commits", GET=(Tag.MONITORING, show_commits)),
    resource("/api/leveret/alarms", GET=(Tag.MONITORING, show_alarms)),
    resource("/api/leveret/shipping", GET=(Tag.MONITORING, show_shipping)),
    resource("/api/leveret/unconfirmed", GET=(Tag.MONITORING, show_unconfirmed)),
    resource("/api/leveret/move/{vhost}/{queue}", in_vhost=True, POST=(Tag.ANY, move_messages)),
    resource("/api/leveret/streams/{vhost}/{queue}", in_vhost=True, POST=(Tag.ANY, read_stream)),
    resource("/api/leveret/trace/{vhost}", in_vhost=True, POST=(Tag.ADMINISTRATOR, trace)),
]
