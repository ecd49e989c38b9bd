"""Content headers: literal bytes, round trips, and the summary that the publish path takes."""

from __future__ import annotations

import pytest

from broker.wire import properties
from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import Field, decode_table, encode_table, from_python
from broker.wire.properties import BasicProperties, body_size, decode_properties, encode_header, summarize

ALL_SET = BasicProperties(
    content_type="a",
    content_encoding="b",
    headers={"h": Field("t", True)},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="d",
    expiration="5",
    message_id="e",
    timestamp=258,
    type="f",
    user_id="g",
    app_id="h",
    cluster_id="i",
)
ALL_SET_BYTES = (
    b"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\xff\xfc"
    b"\x01a\x01b\x00\x00\x00\x04\x01ht\x01\x02\x09\x01c\x01d\x015\x01e"
    b"\x00\x00\x00\x00\x00\x00\x01\x02\x01f\x01g\x01h\x01i"
)


def test_known_bytes() -> None:
    """0-9-1 specification, 2.3.5.2, with the property order of the basic class.

    RabbitMQ 3.10.8 (decode_properties) reads past the bit below cluster-id.
    """
    assert encode_header(7, ALL_SET) == ALL_SET_BYTES
    assert decode_properties(ALL_SET_BYTES) == ALL_SET
    assert body_size(ALL_SET_BYTES) == 7
    assert encode_header(0) == b"\x00\x3c" + bytes(12)
    header = bytes(12) + b"\x80\x02\x01a"
    assert decode_properties(header) == BasicProperties(content_type="a")
    assert summarize(header).persistent is False


def agree(header: bytes, said: BasicProperties) -> bool:
    """True if the summary says what the properties say."""
    summary = summarize(header)
    headers = None if summary.headers is None else decode_table(summary.headers)[0]
    words = (summary.expiration, summary.reply_to, summary.user_id)
    return (
        (summary.persistent, summary.delivery_mode) == (said.delivery_mode == 2, said.delivery_mode)
        and (summary.priority, headers) == (said.priority, said.headers)
        and words == (said.expiration, said.reply_to, said.user_id)
    )


EACH = [(), *((field,) for field in BasicProperties._fields), BasicProperties._fields]


@pytest.mark.parametrize("kept", EACH, ids=str)
def test_properties_survive_the_wire(kept: tuple[str, ...]) -> None:
    """Whole: cut short or too long they are refused, by the summary too, which otherwise agrees with them."""
    values = BasicProperties(**{field: getattr(ALL_SET, field) for field in kept})
    header = encode_header(7, values)
    assert decode_properties(header) == values
    assert body_size(header) == 7
    assert agree(header, values)
    for broken in (header + b"\x00", *(header[:end] for end in range(len(header)))):
        assert _refuses(decode_properties, broken)
        assert _refuses(summarize, broken)


@pytest.mark.parametrize("difference", [1, 2, 4, 8, 16, 32, 64, 128, 255])
def test_lists_alike_in_shape_are_judged_by_what_they_say(difference: int) -> None:
    """One is remembered, and what differs from it in one byte must not pass for it."""
    for place in range(12, len(ALL_SET_BYTES)):
        summarize(ALL_SET_BYTES)
        other = bytearray(ALL_SET_BYTES)
        other[place] ^= difference
        assert _refuses(summarize, bytes(other)) == _refuses(decode_properties, bytes(other))
        assert _refuses(summarize, bytes(other)) or agree(bytes(other), decode_properties(bytes(other)))


@pytest.mark.parametrize("broken", [b"\x00\x01\x00\x00", b"\x20\x00\x00\x00\x00\x03\x01aU"], ids=["flags", "table"])
def test_what_is_broken_is_refused_each_time(broken: bytes) -> None:
    """A second word of flags; a table of headers with a value of no type."""
    for read in (summarize, summarize, decode_properties):
        assert _refuses(read, bytes(12) + broken)


def test_the_caches_stay_within_their_bounds() -> None:
    for number in range(properties.CACHE_ENTRIES_MAX + 10):
        headers = from_python({"n": number})
        assert summarize(encode_header(1, BasicProperties(headers=headers))).headers == encode_table(headers)
    assert 0 < len(properties._summaries) <= properties.CACHE_ENTRIES_MAX
    long_list = encode_header(1, BasicProperties(headers=from_python({"n": "x" * 300})))
    assert summarize(long_list).headers == summarize(long_list).headers
    assert all(len(part) <= properties.CACHED_BYTES_MAX for part in properties._summaries)


def _refuses(read: object, header: bytes) -> bool:
    try:
        read(header)  # type: ignore[operator]
    except DecodeError:
        return True
    return False
