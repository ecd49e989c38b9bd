"""Errors that close a channel or a connection, and the format of reply texts."""

from __future__ import annotations

from broker.wire.constants import ReplyCode

REPLY_TEXT_BYTES_MAX = 255
_CUT = "..."


class AmqpError(Exception):
    """An error reported to the peer: a reply code, and the text behind its name."""

    def __init__(self, code: ReplyCode, text: str) -> None:
        super().__init__(f"{code.name} - {text}")
        self.code = code
        self.text = text


class ChannelException(AmqpError):
    """Closes one channel, with channel.close. On channel 0 it closes the connection."""


class ConnectionException(AmqpError):
    """Closes the connection, with connection.close and the ids of the method at fault, or 0/0.

    The text of an internal error (541) goes to the log only, unless `told` is set.
    """

    def __init__(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.told = False
        self.class_id = class_id
        self.method_id = method_id


def precondition_failed(text: str) -> ChannelException:
    """Return a 406; `text` follows the name of the code."""
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text)


class DecodeError(Exception):
    """An invalid method, property list or table. The caller knows the frame, and so the reply code."""


def reply_text(code: ReplyCode, text: str) -> str:
    """Return `NOT_FOUND - <text>`, or the name alone without a text; cut to the 255 bytes of a short string.

    RabbitMQ writes every close in this form, and ends a long one in `...` (3.10.8 on the wire). It may cut within a
    character, we do not.
    """
    whole = f"{code.name} - {text}" if text else code.name
    raw = whole.encode("utf-8", "surrogateescape")
    if len(raw) <= REPLY_TEXT_BYTES_MAX:
        return whole
    end = REPLY_TEXT_BYTES_MAX - len(_CUT)
    # A continuation byte at the cut: its character began earlier.
    while end > REPLY_TEXT_BYTES_MAX - len(_CUT) - 4 and raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end].decode("utf-8", "surrogateescape") + _CUT
