"""Leveret's own route for offsets that groups of consumers commit in streams: /api/leveret/stream-offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from broker.admin.definitions.group_offsets import commit_offsets, forget_offsets
from broker.entities.queues.streams.stream_queue import Stream
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import JsonResponse, array_in_pieces, bad_request, empty, not_found
from broker.management.rows.stream_rows import committed_offsets
from broker.session.channel.permissions import Access
from broker.session.direct_session import Refused
from broker.wire.amqp_errors import ChannelException, reply_text

OFFSET_MAX = (1 << 63) - 1


async def list_offsets(call: ApiCall) -> Response:
    """List the committed offsets of all groups in all streams."""
    return JsonResponse(array_in_pieces(_rows(call)))


def _rows(call: ApiCall) -> Iterator[dict[str, Any]]:
    for vhost in call.vhosts():
        for queue in list(vhost.queues.values()):
            for row in committed_offsets(queue):
                yield {"vhost": queue.vhost_name, "queue": queue.name, **row}


async def commit(call: ApiCall) -> Response:
    """Note the offsets of a group, `{"offsets": {"clicks": 1000}}`: each the next to be read. Answered when on disk.

    The user needs the permission to read each stream.
    """
    fields, group = await call.fields(), call.short_name("group")
    fields.require("offsets")
    access = _access(call)
    offsets = {_readable(call, access, name): _offset(name, offset) for name, offset in fields.table("offsets").items()}
    await commit_offsets(call.api.administration, group, offsets)
    return empty(204)


async def forget(call: ApiCall) -> Response:
    """Forget a group in all streams of a virtual host. The user needs the permission to read each that it has read."""
    group, access = call.names["group"], _access(call)
    queues = list(call.vhost.queues.values())
    streams = [queue for queue in queues if isinstance(queue, Stream) and group in queue.committed]
    if not streams:
        raise not_found()
    for stream in streams:
        _readable(call, access, stream.name)
    await forget_offsets(call.api.administration, group, streams)
    return empty(204)


def _access(call: ApiCall) -> Access:
    return call.api.registry.routes(call.account.name, call.vhost.name).access


def _readable(call: ApiCall, access: Access, name: str) -> Stream:
    """Return a stream that the user may read. Raises Problem 400, Refused."""
    queue = call.vhost.queues.get(name)
    if not isinstance(queue, Stream):
        raise bad_request(f"there is no stream '{name}' in vhost '{call.vhost.name}'")
    try:
        access.read_queue(name)
    except ChannelException as error:
        raise Refused(error.code, reply_text(error.code, error.text)) from None
    return queue


def _offset(name: str, offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= OFFSET_MAX:
        raise bad_request(f"offsets: {name} has a number from 0 to {OFFSET_MAX}, the next offset to be read")
    return offset


RESOURCES: list[Resource] = [
    resource("/api/leveret/stream-offsets", GET=(Tag.ANY, list_offsets)),
    resource("/api/leveret/stream-offsets/{vhost}", in_vhost=True, GET=(Tag.ANY, list_offsets)),
    resource(
        "/api/leveret/stream-offsets/{vhost}/{group}", in_vhost=True, PUT=(Tag.ANY, commit), DELETE=(Tag.ANY, forget)
    ),
]
