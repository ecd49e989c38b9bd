"""Texts that another reader could act upon: a log, a terminal, a table, a metric, a page, a database, a protocol."""

from __future__ import annotations

import random
import struct
import zlib

from broker.wire.frames import PROTOCOL_HEADER, method_frame
from broker.wire.methods import ChannelClose, ConnectionClose, QueueDelete

MARK = "forged-by-contents"
"""A word that no reader may show as a line, a sample, an element or a statement of its own: part of the texts below."""

NAME_BYTES_MAX = 255
"""Longest AMQP short string."""

LOG_LINES = (
    f"x\n2026-01-31 12:00:00.000Z [error] {MARK}",
    f'x"}}\n{{"time": "2026-01-31T12:00:00.000Z", "level": "error", "logger": "leveret", "message": "{MARK}"}}',
    f"x\r2026-01-31 12:00:00.000Z [error] {MARK}",
    f"x\u2028{MARK}\u2029\x85\x0b\x0c",
)
TERMINALS = (
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31mred\x9d0;title\x9c",
    "\x08\x08\x08\x7f\x00",
    "\x1bP$q\x1b\\",
    "\u202egnp.txt\u202c\u200b\ufeff",
)
TABLES = (
    f'=HYPERLINK("http://evil.example","{MARK}")',
    f'a,"b\n";c\td\n{MARK}',
    f'"}}],"{MARK}":[{{"a":"\\u0000\\',
    "| - | + |\n+---+---+",
)
METRICS = (
    f'x"}} 1\n{MARK.replace("-", "_")}{{queue="x',
    f"x\n# TYPE {MARK.replace('-', '_')} gauge\n{MARK.replace('-', '_')} 99\n# EOF\n",
    'back\\slash\\n\\"{}=,',
)
MARKUP = (
    f'<script id="{MARK}">alert(1)</script>',
    f'"><img id="{MARK}" src=x onerror=alert(1)>',
    f"'--></style></title><svg id={MARK} onload=alert(1)>",
    "javascript:alert(1)//&lt;&#60;{{7*7}}${7*7}<%= 7*7 %>",
)
STATEMENTS = (
    "'; DROP TABLE queues; --",
    'x" OR "1"="1',
    "x' UNION SELECT * FROM users; --",
    "%' ESCAPE '\\",
)
FORMATS = (
    "%s%n%(message)s%",
    "{0.__class__}{}{name!r}{",
    "~p~n~s~",
    "../../../../etc/passwd",
    "..%2f..%2f%00",
    "a/b//c/",
    "$(id)`id`;id|id&&id",
    "^(a+)+$",
)
CHARACTERS = (
    "e\u0301\u00e9\U0001f600\ufb00",
    "\udcff\udc80\udcc0\udcaf",
    "\x00",
    " ",
    ".",
    "é" * 127,
    "x" * NAME_BYTES_MAX,
)
"""Bytes that are no UTF-8 stand here as surrogates, as in the broker."""

TEXTS = (*LOG_LINES, *TERMINALS, *TABLES, *METRICS, *MARKUP, *STATEMENTS, *FORMATS, *CHARACTERS)

FRAMES = (
    PROTOCOL_HEADER,
    method_frame(0, ConnectionClose(320, "CONNECTION_FORCED", 0, 0)),
    b"\xce"
    + method_frame(1, ChannelClose(200, MARK, 0, 0))
    + method_frame(1, QueueDelete("classic", False, False, False)),
    b"\x01\x00\x01\xff\xff\xff\xff" + b"\xce" * 64,
)
HTTP = (
    b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\n\r\n",
    b"0\r\n\r\nDELETE /api/queues/%2F/classic HTTP/1.1\r\nHost: broker\r\n\r\n",
    b"ffffffffffffffff\r\n",
)
PACKED = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff\xc0",
    b"\x91" * 5000,
    b"\xc6\x7f\xff\xff\xff",
    zlib.compress(bytes(1 << 24), 9),
    zlib.compress(zlib.compress(bytes(1 << 24), 9), 9),
)
HEADS = (
    b"SQLite format 3\x00" + struct.pack(">HBB", 4096, 2, 2),
    struct.pack(">IIII", 0x377F0682, 3007000, 4096, 0),
    struct.pack("<QHHHHII", 1, 0, 8, 0, 0, 0xBEEFC0DE, 1),
    b"leveret-events\n\x00\x00\x02" + struct.pack(">IIQI", 4, 0, 1, 1) + b"\x90",
    b"leveret-tail\n\x00\x00\x01" + struct.pack(">IIQI", 4, 0, 1, 1) + b"\x90",
    b"leveret\x00",
)
"""Beginnings of files of SQLite, its log, LMDB and the event log."""

BYTES = (*FRAMES, *HTTP, *PACKED, *HEADS, *(text.encode("utf-8", "surrogateescape") for text in TEXTS))


def cut(text: str, size: int = NAME_BYTES_MAX) -> str:
    """Cut a text to at most `size` bytes."""
    return text.encode("utf-8", "surrogateescape")[:size].decode("utf-8", "surrogateescape")


def is_text(name: str) -> bool:
    """It is UTF-8, so HTTP and JSON can name it."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


class Texts:
    """Hostile texts, none of them twice as a name: each ends in a number of its own."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._given = 0

    def name(self, text: str | None = None) -> str:
        """A name that nothing has yet."""
        self._given += 1
        ending = f"#{self._given}"
        chosen = self._dice.choice(TEXTS) if text is None else text
        return cut(chosen, NAME_BYTES_MAX - len(ending)) + ending

    def readable_name(self) -> str:
        """The same, as UTF-8."""
        while not is_text(name := self.name()):
            pass
        return name

    def text(self) -> str:
        """Any of them."""
        return cut(self._dice.choice(TEXTS))
