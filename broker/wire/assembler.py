"""Method, content header and body frames of one channel, put together into commands.

Three states: a method is expected; its header is expected; some of its body is expected. Frames of one content may not
be interleaved with other frames of the same channel (0-9-1 specification, 4.2.6); a breach ends the connection with the
words of rabbit_command_assembler (RabbitMQ 3.10.8 on the wire).
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.method import Method
from broker.wire.properties import HEADER_START


class Command(NamedTuple):
    """A method with its content. header_payload is None when the method carries none.

    `arguments` are the method's, as they came: its payload without class and method id.
    """

    method: Method
    arguments: bytes
    header_payload: bytes | None
    body: bytes


class Assembler:
    """The assembly state of one channel. Feed it a channel's frames in order; it does no I/O.

    body_bytes_max is the broker's limit on a message; a larger announcement is refused before its body is gathered.
    """

    __slots__ = ("_arguments", "_header", "_method", "_parts", "body_bytes_max", "bytes", "idle", "missing")

    def __init__(self, body_bytes_max: int = 0) -> None:
        self.body_bytes_max = body_bytes_max
        self._method: Method | None = None
        self._arguments = b""
        self._header: bytes | None = None
        self._parts: list[bytes | bytearray | memoryview] = []
        self.missing = 0
        """How many bytes the body lacks."""
        self.idle = True
        """No content is half received."""
        self.bytes = 0
        """How much of a body is there that is not whole."""

    def method(self, method: Method, arguments: bytes) -> Command | None:
        """Take a decoded method and its arguments as they came; return the command unless content has to follow it."""
        if self._method is not None:
            raise self._unexpected_method()
        if method.HAS_CONTENT:
            self._method, self._arguments = method, arguments
            self.idle = False
            return None
        return Command(method, arguments, None, b"")

    def header(self, payload: bytes) -> Command | None:
        """Take a content header; return the command when its body is empty."""
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
        """Take a body frame, as it is or where it lies; return the command when the announced size is reached."""
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
        """Small pieces after the first grow together: a body that comes by the byte takes no more than its bytes."""
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
