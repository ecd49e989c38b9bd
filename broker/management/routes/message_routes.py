"""Messages: publish to an exchange, get from a queue, look at those in a queue."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.responses import Response

from broker.admin.commands.queue_admin import PeekQueue
from broker.admin.messages.message_in_json import payload_in_json, properties_in_json
from broker.admin.short_steps import pause_if_due
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.freed_memory import give_freed_memory_back
from broker.management.access import NOT_IN_VHOST, Tag, denied
from broker.management.api_call import ApiCall
from broker.management.json_bodies import BodyFields
from broker.management.message_json import payload_of, properties_of
from broker.management.resources import Resource, resource
from broker.management.responses import JsonArray, JsonResponse, Problem, bad_request, encoded, in_json
from broker.management.routes.exchange_routes import exchange_in_path
from broker.management.routes.queue_routes import assert_queue
from broker.session.direct_session import DirectSession, Refused
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, reply_text
from broker.wire.assembler import Command
from broker.wire.constants import ReplyCode
from broker.wire.properties import decode_properties, encode_header

TAKEN_BYTES_MAX = 16 << 20
"""Size of an answer after which no further message is fetched, with MESSAGE_BYTES for each."""
LARGE_BYTES = 4 << 20
"""Smallest message for which the memory of its JSON is given back before the message is copied."""
MESSAGE_BYTES = 1024
"""Approximate size of a message beside its body."""

ACKMODES = {
    "ack_requeue_true": True,
    "ack_requeue_false": None,
    "reject_requeue_true": True,
    "reject_requeue_false": False,
}
"""True: fetched messages are requeued. False: they are rejected. None: they are acknowledged."""
ENCODINGS = ("auto", "base64")


class GetRequest(NamedTuple):
    """A request for messages: their number, negative for all; payloads are cut to `truncate` bytes."""

    messages: int
    ackmode: str
    encoding: str
    truncate: int | None


async def publish(call: ApiCall) -> Response:
    """Publish a message, and answer after its confirm if it was routed to a queue."""
    exchange = exchange_in_path(call)
    call.assert_vhost()
    if call.api.series >= (4, 0) and exchange not in call.vhost.exchanges:
        raise Problem(404, "not_found", "exchange_not_found")
    fields = await call.message_fields()
    fields.require("routing_key", "properties", "payload", "payload_encoding")
    key, body = fields.short_text("routing_key"), await payload_of(fields)
    header = encode_header(len(body), properties_of(fields))
    call.api.update_alarms()
    async with call.session() as session:
        try:
            await call.answered(session.ask(methods.ConfirmSelect(False)))
            confirmed = await call.answered(await _published(session, exchange, key, header, body))
        except Refused as refused:
            raise bad_request(f"{refused.code} {refused.text}") from None
    if not isinstance(confirmed.method, methods.BasicAck):
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return in_json({"routed": not session.returned})


async def _published(
    session: DirectSession, exchange: str, key: str, header: bytes, body: bytearray
) -> Future[Command]:
    """Publish in short steps, which consume `body`. Return the future of the confirm."""
    is_large = len(body) >= LARGE_BYTES
    confirmed = session.publish(exchange, key, header)
    while body:
        part = bytes(body[: session.body_part_bytes])
        del body[: len(part)]
        if is_large and not body:
            give_freed_memory_back()  # with the last part two copies of the message are made
        session.add_body(part)
        await pause_if_due()
    if is_large:
        give_freed_memory_back()  # the store makes two more while it writes them
    return confirmed


async def take(call: ApiCall) -> Response:
    """Get messages from a queue. They are requeued, if asked for, once all of them are fetched."""
    if call.api.series >= (4, 0):
        call.assert_vhost()
        assert_queue(call)
    wanted = _wanted(await call.fields())
    async with call.session() as session:
        try:
            taken = await _taken(call, session, wanted)
        except Refused as refused:
            raise _refusal(refused) from None
        if taken.rows:
            await _settle(call, session, wanted.ackmode, taken.rows)
    return JsonResponse(taken.pieces())


async def _settle(call: ApiCall, session: DirectSession, ackmode: str, fetched: int) -> None:
    """Reject or requeue what was fetched: tags 1 to `fetched`.

    The end of the session returns what was only looked at, before all others. From 4.3 on that would count as a failed
    delivery of a quorum queue, and basic.nack does not, but a basic.reject does.
    """
    requeue, alike = ACKMODES[ackmode], call.broker.personality.nacks_count
    if ackmode == "ack_requeue_true":
        if not alike:
            session.send(methods.BasicNack(0, True, True))
    elif requeue is not None and alike:
        session.send(methods.BasicNack(0, True, requeue))
    elif requeue is not None:
        for tag in range(1, fetched + 1):
            session.send(methods.BasicReject(tag, requeue))
            await pause_if_due()


def _wanted(fields: BodyFields) -> GetRequest:
    fields.require("ackmode", "count", "encoding")
    ackmode, encoding = fields.values["ackmode"], fields.values["encoding"]
    count = fields.number("count")
    if encoding not in ENCODINGS:
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    if not isinstance(ackmode, str) or ackmode not in ACKMODES:
        raise bad_request(f"Invalid ackmode value: {ackmode}. Valid values are: {', '.join(ACKMODES)}")
    truncate = fields.number("truncate") if "truncate" in fields else None
    if truncate is not None and truncate < 0:
        raise bad_request(["not_a_length", truncate])
    return GetRequest(count, ackmode, encoding, truncate)


async def look(call: ApiCall) -> Response:
    """Look at messages of a queue; nothing changes. The user needs the same permission as to get them."""
    queue, given = _readable(call), call.parameters
    numbers = {name: _number(given[name], name) for name in ("offset", "count", "truncate") if name in given}
    texts = {name: given[name] for name in ("encoding", "routing_key", "header", "state") if name in given}
    command = PeekQueue.parse({"vhost": queue.vhost_name, "name": queue.name, **numbers, **texts})
    page: Any = await call.change(command)
    rows = JsonArray()
    for row in page.pop("messages"):
        rows.add(encoded(row))
        await pause_if_due()
    return JsonResponse([encoded(page)[:-1], b',"messages":', *rows.pieces(), b"}"])


def _readable(call: ApiCall) -> Queue:
    """Return the queue that the path names, if the user may read it. Raises Problem as a request to get does."""
    vhost, name = call.vhost, call.short_name("queue")
    if not call.account.enters(vhost.name):  # GET is let through for administrators, who see each queue
        raise denied(call.account.name, NOT_IN_VHOST)
    try:
        call.api.registry.routes(call.account.name, vhost.name).access.read_queue(name)
        return vhost.queue(name, None)
    except ChannelException as error:
        raise _refusal(Refused(error.code, reply_text(error.code, error.text))) from None


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f"argument {name}: expected a number") from None


def _refusal(refused: Refused) -> Problem:
    if refused.code == ReplyCode.NOT_FOUND:
        return Problem(404, "not_found", refused.text)
    if refused.code == ReplyCode.ACCESS_REFUSED:
        return Problem(401, "not_authorised", refused.text)
    text = refused.explanation if refused.code == ReplyCode.NOT_IMPLEMENTED else refused.text
    return bad_request(f"{refused.code} {text}")


async def _taken(call: ApiCall, session: DirectSession, wanted: GetRequest) -> JsonArray:
    """Fetch messages up to the number that is asked for, and to TAKEN_BYTES_MAX."""
    taken, size = JsonArray(), 0
    get = methods.BasicGet(call.short_name("queue"), ACKMODES[wanted.ackmode] is None)
    while taken.rows != wanted.messages and size < TAKEN_BYTES_MAX:
        found = await call.answered(session.ask(get))
        if not isinstance(found.method, methods.BasicGetOk):
            break
        row = encoded(_shown(found, found.method, wanted))
        taken.add(row)
        size += len(found.body) + len(row) + MESSAGE_BYTES
        await pause_if_due()
    return taken


def _shown(found: Command, got: methods.BasicGetOk, wanted: GetRequest) -> dict[str, Any]:
    assert found.header_payload is not None, "a message has a header"
    payload = found.body if wanted.truncate is None else found.body[: wanted.truncate]
    return {
        "payload_bytes": len(found.body),
        "redelivered": got.redelivered,
        "exchange": got.exchange,
        "routing_key": got.routing_key,
        "message_count": got.message_count,
        "properties": properties_in_json(decode_properties(found.header_payload)),
        **payload_in_json(payload, as_base64=wanted.encoding == "base64"),
    }


RESOURCES: list[Resource] = [
    resource("/api/exchanges/{vhost}/{exchange}/publish", in_vhost=True, POST=(Tag.ANY, publish)),
    resource("/api/queues/{vhost}/{queue}/get", in_vhost=True, POST=(Tag.ANY, take)),
    resource("/api/queues/{vhost}/{queue}/peek", in_vhost=True, GET=(Tag.ANY, look)),
]
