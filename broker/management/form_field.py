"""Fields of a form (RFC 7578), searched for in short steps."""

from __future__ import annotations

from collections.abc import Collection
from email.parser import HeaderParser

from broker.admin.short_steps import pause_if_due

HEAD_BYTES_MAX = 4096
"""Longest headers of a part; a part with longer ones is skipped."""
END_OF_HEAD = b"\r\n\r\n"


async def fields_of_form(boundary: str, body: bytearray, names: Collection[str]) -> dict[str, bytearray]:
    """Return the contents of the fields of these names that there are; of several with one name, the last."""
    border = b"\r\n--" + boundary.encode("latin-1", "replace")
    start = 0 if body.startswith(border[2:]) else body.find(border)
    found = dict[str, bytearray]()
    while boundary and start >= 0:
        await pause_if_due()
        start += len(border) if start else len(border) - 2
        end_of_head = body.find(END_OF_HEAD, start, start + HEAD_BYTES_MAX)
        end = body.find(border, start)
        name = _name(bytes(body[start:end_of_head])) if end_of_head >= 0 else ""
        if name in names:
            found[name] = body[end_of_head + len(END_OF_HEAD) : end if end >= 0 else None]
        start = end
    return found


def _name(head: bytes) -> str:
    headers = HeaderParser().parsestr(head.decode("latin-1").lstrip())
    return str(headers.get_param("name", header="content-disposition"))
