"""The command assembler: method, content header and body frames of one channel become commands.

Three states: a method is expected; its header is expected; more of its body is expected. Frames of one content must not
be interleaved with other frames of the same channel (0-9-1 specification, 4.2.6); a violation closes the connection
with the text of rabbit_command_assembler (RabbitMQ 3.10.8 on the wire).
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.method import Method
from broker.wire.properties import HEADER_START


class Command(NamedTuple):
    """A method with its content. header_payload is None if the method has no content.

    `arguments`: the method's encoded arguments, its payload without class and method id.
    """

    method: Method
    arguments: bytes
    header_payload: bytes | None
    body: bytes


class Assembler:
    """The assembly state of one channel, fed with the channel's frames in order. Does no I/O.

    body_bytes_max: the largest message; a larger one is refused by its header, before any of its body is kept.
    """

    __slots__ = ("_arguments", "_header", "_method", "_parts", "body_bytes_max", "bytes", "idle", "missing")

    def __init__(self, body_bytes_max: int = 0) -> None:
        self.body_bytes_max = body_bytes_max
        self._method: Method | None = None
        self._arguments = b""
        self._header: bytes | None = None
        self._parts: list[bytes | bytearray | memoryview] = []
        self.missing = 0
        """Bytes of the body that are still to come."""
        self.idle = True
        """No content is partly received."""
        self.bytes = 0
        """Bytes of an incomplete body that have been received."""

    def method(self, method: Method, arguments: bytes) -> Command | None:
        """Take a decoded method and its encoded arguments; return the command, or None if content has to follow."""
        if self._method is not None:
            raise self._unexpected_method()
        if method.HAS_CONTENT:
            self._method, self._arguments = method, arguments
            self.idle = False
            return None
        return Command(method, arguments, None, b"")

    def header(self, payload: bytes) -> Command | None:
        """Take a content header; return the command if its body is empty, else None."""
        method = self._method
        if method is None:
            raise _unexpected("expected method frame, got non method frame instead")
        if self._header is not None:
            raise _unexpected("expected content body, got non content body frame instead", method)
        if len(payload) < HEADER_START.size + 2:
            raise ConnectionException(ReplyCode.INTERNAL_ERROR, f"content header of {len(payload)} bytes")
        class_id, weight, size = HEADER_START.unpack_from(payload)
        if class_id != method.CLASS_ID:
            text = f"expected content header for class {method.CLASS_ID}, got one for class {class_id} instead"
            raise _unexpected(text, method)
        if weight:
            text = f"expected content header for class {method.CLASS_ID}, got non content header frame instead"
            raise _unexpected(text, method)
        # By the announced size: nothing of a body that is too large is ever kept.
        if self.body_bytes_max and size > self.body_bytes_max:
            text = f"content body size {size} exceeds maximum allowed size {self.body_bytes_max}"
            raise ConnectionException(ReplyCode.FRAME_ERROR, text, method.CLASS_ID, method.METHOD_ID)
        if size:
            self._header, self.missing = payload, size
            return None
        self._method = None
        self.idle = True
        return Command(method, self._arguments, payload, b"")

    def body(self, payload: bytes | memoryview) -> Command | None:
        """Take a body frame's payload, bytes or a view; return the command once the announced size is reached."""
        method, header = self._method, self._header
        if method is None:
            raise _unexpected("expected method frame, got non method frame instead")
        if header is None:
            raise self._unexpected_method()
        missing = self.missing - len(payload)
        if missing < 0:
            # RabbitMQ 3.10 waits for ever here; 4.2.9 and later say this.
            text = "content body frame exceeds remaining content size"
            raise ConnectionException(ReplyCode.FRAME_ERROR, text, method.CLASS_ID, method.METHOD_ID)
        self._keep(payload)
        self.missing = missing
        if missing:
            return None
        body = payload if isinstance(payload, bytes) and len(self._parts) == 1 else b"".join(self._parts)
        self._method = self._header = None
        self._parts = []
        self.bytes = 0
        self.idle = True
        return Command(method, self._arguments, header, body)

    def _keep(self, payload: bytes | memoryview) -> None:
        """Keep a part of the body; small parts are joined, so that a body sent byte by byte takes no extra memory."""
        self.bytes += len(payload)
        parts = self._parts
        if isinstance(payload, memoryview) or not parts:
            parts.append(payload)
        elif isinstance(parts[-1], bytearray):
            parts[-1] += payload
        elif payload:
            parts.append(bytearray(payload))

    def _unexpected_method(self) -> ConnectionException:
        method = self._method
        assert method is not None
        if self._header is not None:
            return _unexpected("expected content body, got non content body frame instead", method)
        text = f"expected content header for class {method.CLASS_ID}, got non content header frame instead"
        return _unexpected(text, method)


def _unexpected(text: str, method: Method | None = None) -> ConnectionException:
    class_id, method_id = (method.CLASS_ID, method.METHOD_ID) if method else (0, 0)
    return ConnectionException(ReplyCode.UNEXPECTED_FRAME, text, class_id, method_id)
