"""AMQP's two scopes of error, and the one way a reply text is written."""

from __future__ import annotations

from broker.wire.constants import ReplyCode

REPLY_TEXT_BYTES_MAX = 255
_CUT = "..."


class AmqpError(Exception):
    """An error that is reported to the peer: a reply code and the text after its name."""

    def __init__(self, code: ReplyCode, text: str) -> None:
        super().__init__(f"{code.name} - {text}")
        self.code = code
        self.text = text


class ChannelException(AmqpError):
    """Ends one channel: answered with channel.close. On channel 0 it ends the connection."""


class ConnectionException(AmqpError):
    """Ends the connection: answered with connection.close, naming the method at fault or 0/0.

    The text of an internal error is for the log alone, unless it is `told`.
    """

    def __init__(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.told = False
        self.class_id = class_id
        self.method_id = method_id


def precondition_failed(text: str) -> ChannelException:
    """The 406 with which RabbitMQ refuses arguments, and much else; `text` follows the name of the code."""
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text)


class DecodeError(Exception):
    """Bytes that are no valid method, property list or table. The caller knows the frame, and so the reply code."""


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
