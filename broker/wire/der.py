"""A reader of DER, the encoding of certificates (X.690): nested elements of tag, length and content.

The TLS library has checked the certificates before; malformed data raises DecodeError all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.amqp_errors import DecodeError

SEQUENCE = 0x30
SET = 0x31
OBJECT_IDENTIFIER = 0x06
UTC_TIME = 0x17

_ENCODINGS = {
    0x0C: "utf-8",  # UTF8String
    0x13: "utf-8",  # PrintableString
    0x14: "latin-1",  # TeletexString
    0x16: "utf-8",  # IA5String
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
LONG_FORM = 0x80


class Element(NamedTuple):
    """A DER element: its tag byte and its contents."""

    tag: int
    content: bytes

    @property
    def inside(self) -> list[Element]:
        """The elements in its contents. Raises DecodeError."""
        return elements(self.content)


def elements(data: bytes) -> list[Element]:
    """Return consecutive elements. Raises DecodeError."""
    found, start = [], 0
    while start < len(data):
        size, begin = _length(data, start + 1)
        end = begin + size
        if end > len(data):
            raise DecodeError("a DER element is cut short")
        found.append(Element(data[start], data[begin:end]))
        start = end
    return found


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return an element's length, and the offset of its contents."""
    first = data[at] if at < len(data) else 0
    if first < LONG_FORM:
        return first, at + 1
    end = at + 1 + (first - LONG_FORM)
    return int.from_bytes(data[at + 1 : end], "big"), end


def text(element: Element) -> str:
    """Return a string of any of DER's types; invalid bytes become surrogate escapes. Raises DecodeError."""
    try:
        return element.content.decode(_ENCODINGS[element.tag], "surrogateescape")
    except (KeyError, UnicodeError) as error:
        raise DecodeError(f"a DER element with tag {element.tag} is no text") from error


def object_identifier(content: bytes) -> str:
    """Return an object identifier as numbers separated by dots."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < LONG_FORM:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, [first, (numbers[0] if numbers else 0) - 40 * first, *numbers[1:]]))
