"""The administration socket: commands for a running broker are carried out by the broker itself.

`broker/admin/protocol.py` has the form of requests and answers. The socket is created after recovery, accessible to
its owner alone, and removed at the end. One that a crash left is replaced: the holder of the data directory's lock is
the only broker there.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from broker.admin.administration import Administration
from broker.admin.commands.admin_command import AdminCommand, ListCommand
from broker.admin.commands.argument_values import table
from broker.admin.commands.command_execution import carry_out, refuse_on_standby, rows_of
from broker.admin.commands.connection_admin import OpenAmqp
from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.json_reader import read_json
from broker.admin.json_input.strict_json import UnreadableJson
from broker.admin.protocol import SOCKET_NAME, AdministrationError, ValidationFailed, invalid, socket_path
from broker.admin.short_steps import in_steps, pause_if_due
from broker.admin.views.listing import Row
from broker.server.net.listeners import ListenError
from broker.wire.field_tables import Table, from_python

log = logging.getLogger("leveret.administration")

REQUEST_BYTES_MAX = 64 << 20
RECEIVE_BYTES = 64 << 10
LEVELS = 3
"""Levels of an answer that is written in pieces: answer, kinds of definitions, their rows. A row is one piece."""
PART_BYTES = 32 << 10
"""Bytes of an answer sent at once."""
BACKLOG = 16

Admit = Callable[[socket.socket, str, Table], None]
"""Serves a socket as an AMQP connection that has opened a virtual host, with these client properties."""


@contextmanager
def listening(directory: Path) -> Iterator[trio.SocketListener]:
    """Listen on the socket in a data directory. Raises ListenError."""
    path = directory / SOCKET_NAME
    listener = socket.socket(socket.AF_UNIX)
    try:
        try:
            path.unlink(missing_ok=True)
            with socket_path(directory) as short:
                listener.bind(short)
            path.chmod(0o600)
        except OSError as error:
            expected = "expected to make the socket for `leveret`'s commands there"
            raise ListenError(f"cannot listen on {path}: {os.strerror(error.errno or 0)}; {expected}") from error
        listener.listen(BACKLOG)
        listener.setblocking(False)
        yield trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    finally:
        listener.close()
        if path.is_socket():
            path.unlink(missing_ok=True)


async def serve(administration: Administration, listener: trio.SocketListener, admit: Admit) -> None:
    """Carry out commands until cancelled. An error in a command never ends the broker.

    `admit` serves a caller's socket as an AMQP connection after the command `open_amqp`.
    """
    await trio.serve_listeners(partial(serve_caller, administration, admit), [listener])


async def serve_caller(administration: Administration, admit: Admit, stream: trio.SocketStream) -> None:
    """Carry out the commands of one caller, until it goes."""
    lines = Lines(stream)
    try:
        while await _answer_next(administration, admit, lines, stream):
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        log.debug("administration: the caller has gone before the answer")
    finally:
        await trio.aclose_forcefully(stream)


async def refuse_caller(stream: trio.SocketStream, error: AdministrationError) -> None:
    """Answer a caller, whatever it asks, with an error."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError, AdministrationError):
        await Lines(stream).next()
        await _say(stream, _refusal(error))
    await trio.aclose_forcefully(stream)


async def _answer_next(administration: Administration, admit: Admit, lines: Lines, stream: trio.SocketStream) -> bool:
    """Answer the next request. Return False if no further one can follow."""
    try:
        line = await lines.next()
    except AdministrationError as error:
        await _say(stream, _refusal(error))
        return False
    if line is None:
        return False
    try:
        return await _carry_out(administration, admit, line, stream)
    except AdministrationError as error:
        await _say(stream, _refusal(error))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        raise
    except Exception:
        log.exception("error in an administration command")
        await _say(stream, _refusal(AdministrationError("failed", "internal error, the broker's log has the details")))
    return True


async def _carry_out(administration: Administration, admit: Admit, line: bytes, stream: trio.SocketStream) -> bool:
    """Carry out a request. Return False if AMQP follows instead of requests. Raises AdministrationError."""
    try:
        request = await read_json(BodyParts(line), math.inf)
    except UnreadableJson as error:
        raise invalid(f"the request cannot be read: {error}") from None
    except ValueError:
        raise invalid("the request is not JSON") from None
    administration.process.look_around()
    match _read_command(request):
        case OpenAmqp() as command:
            refuse_on_standby(administration, command)
            await _open_amqp(administration, admit, command, stream)
            return False
        case ListCommand() as command:
            await _list(stream, rows_of(administration, command))
        case command:
            await _say(stream, {"ok": await carry_out(administration, command)})
    return True


def _read_command(request: object) -> AdminCommand:
    # Imported here: all commands together take milliseconds that a start would wait for.
    from broker.admin.commands.command_catalogue import read_command

    match request:
        case {"command": str(name), "arguments": dict(arguments)}:
            return read_command(name, arguments)
    raise invalid("expected a request with a command and its arguments")


async def _open_amqp(
    administration: Administration, admit: Admit, command: OpenAmqp, stream: trio.SocketStream
) -> None:
    """Serve the caller's socket as an AMQP connection in a virtual host from now on."""
    vhost = administration.vhost(command.vhost).name
    try:
        properties = from_python(table(command.properties, "properties"))
    except (TypeError, OverflowError) as error:
        raise invalid(f"argument properties: {error}") from None
    await _say(stream, {"ok": {"frame_max": administration.registry.settings.frame_max}})
    admit(socket.socket(fileno=stream.socket.detach()), vhost, properties)


async def _list(stream: trio.SocketStream, rows: Iterator[Row]) -> None:
    """Send rows, made in short steps, PART_BYTES at a time, as fast as the caller reads them."""
    part: list[str] = []
    size = 0
    async for row in in_steps(rows):
        part.append(json.dumps(row))
        size += len(part[-1])
        if size > PART_BYTES:
            await stream.send_all(b'{"rows": [' + ", ".join(part).encode("ascii") + b"]}\n")
            part, size = [], 0
    await stream.send_all(b'{"ok": [' + ", ".join(part).encode("ascii") + b"]}\n")


async def _say(stream: trio.SocketStream, answer: dict[str, Any]) -> None:
    """Send an answer, encoded in short steps, PART_BYTES at a time, as fast as the caller reads it."""
    part: list[str] = []
    size = 0
    async with aclosing(_written(answer, LEVELS)) as pieces:
        async for piece in pieces:
            part.append(piece)
            size += len(piece)
            await pause_if_due()
            if size > PART_BYTES:
                await stream.send_all("".join(part).encode("ascii"))
                part, size = [], 0
    await stream.send_all("".join([*part, "\n"]).encode("ascii"))


async def _written(value: object, levels: int) -> AsyncGenerator[str]:
    """Yield the JSON of a value in pieces, one for each element `levels` down."""
    if not levels or not value or not isinstance(value, dict | list):
        yield json.dumps(value)
        return
    named = isinstance(value, dict)
    before = "{" if named else "["
    for name, item in value.items() if isinstance(value, dict) else ((None, item) for item in value):
        yield f"{before}{json.dumps(name)}: " if named else before
        before = ", "
        async with aclosing(_written(item, levels - 1)) as pieces:
            async for piece in pieces:
                yield piece
    yield "}" if named else "]"


def _refusal(error: AdministrationError) -> dict[str, Any]:
    problems = {"problems": error.problems} if isinstance(error, ValidationFailed) else {}
    return {"error": {"kind": error.kind, "message": str(error), **problems}}


class Lines:
    """Reads lines of at most REQUEST_BYTES_MAX from a stream."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._rest = bytearray()

    async def next(self) -> bytes | None:
        """Return the next line without its end; None at the end of the stream. Raises AdministrationError."""
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            if searched > REQUEST_BYTES_MAX:
                raise invalid(f"the request is longer than {REQUEST_BYTES_MAX} bytes")
            received = await self._stream.receive_some(RECEIVE_BYTES)
            if not received:
                return None
            self._rest += received
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line
