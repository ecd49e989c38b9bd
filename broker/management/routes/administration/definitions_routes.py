"""Definitions of the broker, or of a virtual host: export and import."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from email.message import Message
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from broker.admin.commands.definitions_admin import ImportDefinitions
from broker.admin.definitions.definitions_export import heading, heading_of_vhost, of_vhost, whole
from broker.admin.definitions.definitions_file import DefinitionsFile, read_definitions
from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.strict_json import UnreadableJson
from broker.freed_memory import give_freed_memory_back
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.form_field import fields_of_form
from broker.management.json_bodies import HUGE_BYTES
from broker.management.resources import Handler, Resource, resource
from broker.management.responses import (
    JsonResponse,
    Problem,
    array_in_pieces,
    bad_request,
    empty,
    encoded,
    vhost_not_found,
)

Sections = Iterable[tuple[str, Iterable[dict[str, Any]]]]

FILE, REDIRECT = "file", "redirect"
"""Fields of a form: the definitions, and the place that the browser goes to once they are imported."""
NOT_JSON = "failed_to_parse_json"
BLANK_MAX = 64
EMPTY = (b"", b"null")
"""Bodies that are taken for an empty object."""
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


class Upload(NamedTuple):
    """Definitions that a client has sent; `redirect` is the place it goes to afterwards, None if it names none."""

    definitions: DefinitionsFile
    redirect: bytes | None


async def export_all(call: ApiCall) -> Response:
    """Export all definitions."""
    administration = call.api.administration
    stored = await administration.definitions.load()
    return await _download(call, heading(administration), lambda: whole(administration, stored))


async def export_vhost(call: ApiCall) -> Response:
    """Export the definitions of a virtual host."""
    administration = call.api.administration
    stored, vhost = await administration.definitions.load(), call.broker.vhosts.get(call.names["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return await _download(
        call, heading_of_vhost(administration, vhost), lambda: of_vhost(administration, stored, vhost)
    )


async def _download(call: ApiCall, head: Mapping[str, Any], sections: Callable[[], Sections]) -> Response:
    """Return the sections that the query asks for, since 4.3 all; `download` in the query is the name of the file.

    In RabbitMQ 4 the answer has an entity tag, and is 304 if the client has that already. The tag is a hash of the
    answer, which is made once more for it.
    """
    wanted = () if call.api.series >= (4, 3) else call.list_query().columns

    def pieces() -> AsyncGenerator[bytes]:
        chosen = {name: value for name, value in head.items() if not wanted or name in wanted}
        return _object(chosen, ((name, rows) for name, rows in sections() if not wanted or name in wanted))

    headers = _named(call.parameters.get("download", ""))
    if call.api.series >= (4, 0):
        headers["etag"] = await _tag(pieces())
        if call.request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
    return JsonResponse(pieces(), headers)


async def _tag(pieces: AsyncGenerator[bytes]) -> str:
    found = sha256()
    async with aclosing(pieces) as every:
        async for piece in every:
            found.update(piece)
    return f'"{found.hexdigest()}"'


async def _object(head: Mapping[str, Any], sections: Sections) -> AsyncGenerator[bytes]:
    """Encode an object in pieces, with rows computed when they are asked for; an empty object is an empty list."""
    before = b"{"
    for name, value in head.items():
        yield before + encoded(name) + b":" + encoded(value)
        before = b","
    for name, rows in sections:
        yield before + encoded(name) + b":"
        before = b","
        async with aclosing(array_in_pieces(rows)) as pieces:
            async for piece in pieces:
                yield piece
    yield b"[]" if before == b"{" else b"}"


def _named(file: str) -> dict[str, str]:
    """The header that gives a file its name (RFC 6266)."""
    if not file:
        return {}
    plain = re.fullmatch(r"[\w.@ -]+", file, re.ASCII) is not None
    name = f"filename={file}" if plain else f"filename*=UTF-8''{quote(file)}"
    return {"content-disposition": f"attachment; {name}"}


async def import_all(call: ApiCall) -> Response:
    """Import definitions: users, permissions, policies, limits and parameters are replaced, others are only added."""
    upload = await _uploaded(call)
    await call.change(ImportDefinitions(definitions=upload.definitions))
    return _done(upload)


async def import_vhost(call: ApiCall) -> Response:
    """Import definitions into a virtual host, whatever virtual host they were exported from."""
    vhost = call.names["vhost"]
    with where_absent(vhost_not_found):
        upload = await _uploaded(call, vhost)
        await call.change(ImportDefinitions(definitions=upload.definitions, vhost=vhost))
    return _done(upload)


async def _uploaded(call: ApiCall, vhost: str | None = None) -> Upload:
    """Read definitions from a body: JSON, or a form. Raises Problem 400 or 415."""
    described = Message()
    described["content-type"] = call.request.headers.get("content-type", "")
    kind = described.get_content_type()
    if kind not in ("application/json", "multipart/form-data"):
        raise Problem(415)
    body, redirect = await call.api.bodies.read(call.request), None
    if kind == "multipart/form-data":
        body, redirect = await _of_form(described.get_boundary(""), body)
    size = len(body)
    try:
        read = await read_definitions(body if body.first(BLANK_MAX).strip() not in EMPTY else BodyParts(b"{}"), vhost)
    except UnreadableJson as error:
        raise bad_request(f"{NOT_JSON}: {error}") from None
    except ValueError:
        raise bad_request(NOT_JSON) from None
    if size >= HUGE_BYTES:
        give_freed_memory_back()  # of the body, which reading has used up: an import makes two more copies
    return Upload(read, redirect)


async def _of_form(boundary: str, body: BodyParts) -> tuple[BodyParts, bytes | None]:
    """Return the file of a form, and the place that the browser goes to afterwards. Raises Problem 400."""
    if not boundary:
        raise Problem(400)
    fields = await fields_of_form(boundary, body.take_all(), (FILE, REDIRECT))
    if FILE not in fields:
        raise bad_request(NOT_JSON)
    redirect = bytes(fields[REDIRECT]).strip() if REDIRECT in fields else None
    if redirect is not None and _CONTROL.search(redirect):
        raise bad_request("redirect: expected a URL without control characters")
    return BodyParts(fields[FILE]), redirect


def _done(upload: Upload) -> Response:
    if upload.redirect is None:
        return empty(204)
    return empty(303, {"location": upload.redirect.decode("latin-1")})


def _routes(path: str, export: Handler, import_: Handler) -> list[Resource]:
    """Return the routes of a path: since RabbitMQ 4.3 links no longer have credentials."""
    get, post = (Tag.ADMINISTRATOR, export), (Tag.ADMINISTRATOR, import_)
    return [
        resource(path, query_credentials=True, GET=get, POST=post, until=(4, 3)),
        resource(path, GET=get, POST=post, since=(4, 3)),
    ]


RESOURCES: list[Resource] = [
    *_routes("/api/definitions", export_all, import_all),
    *_routes("/api/all-configuration", export_all, import_all),
    *_routes("/api/definitions/{vhost}", export_vhost, import_vhost),
]
