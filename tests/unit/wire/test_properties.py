"""Content headers: literal bytes, round trips, and the summary that the publish path takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire import properties
from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import Field, encode_table, from_python
from broker.wire.properties import (
    BasicProperties,
    body_size,
    decode_properties,
    encode_header,
    summarize,
)
from tests.unit.wire.test_tables import tables

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

_strings = st.none() | st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
_octets = st.none() | st.integers(0, 255)
property_lists = st.builds(
    BasicProperties,
    content_type=_strings,
    content_encoding=_strings,
    headers=st.none() | tables,
    delivery_mode=_octets,
    priority=_octets,
    correlation_id=_strings,
    reply_to=_strings,
    expiration=_strings,
    message_id=_strings,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=_strings,
    user_id=_strings,
    app_id=_strings,
    cluster_id=_strings,
)


def test_known_bytes() -> None:
    """0-9-1 specification, 2.3.5.2, with the property order of the basic class."""
    assert encode_header(7, ALL_SET) == ALL_SET_BYTES
    assert decode_properties(ALL_SET_BYTES) == ALL_SET
    assert body_size(ALL_SET_BYTES) == 7
    assert encode_header(0) == b"\x00\x3c" + bytes(12)


@given(property_lists, st.integers(0, 2**64 - 1))
def test_properties_survive_the_wire(values: BasicProperties, size: int) -> None:
    header = encode_header(size, values)
    assert decode_properties(header) == values
    assert body_size(header) == size


@given(property_lists)
def test_the_summary_agrees_with_the_properties(values: BasicProperties) -> None:
    summary = summarize(encode_header(1, values))
    assert summary.persistent == (values.delivery_mode == 2)
    assert summary.delivery_mode == values.delivery_mode
    assert summary.priority == values.priority
    assert (summary.expiration, summary.reply_to, summary.user_id) == (
        values.expiration,
        values.reply_to,
        values.user_id,
    )
    assert summary.headers == (None if values.headers is None else encode_table(values.headers))


@given(property_lists, st.data())
def test_lists_alike_in_shape_are_judged_by_what_they_say(values: BasicProperties, data: st.DataObject) -> None:
    """One is remembered, and what differs from it in one byte must not pass for it."""
    header = encode_header(1, values._replace(correlation_id="c", message_id="mm"))
    summarize(header)
    place = data.draw(st.integers(12, len(header) - 1))
    other = header[:place] + data.draw(st.binary(min_size=1, max_size=1)) + header[place + 1 :]
    assert _refuses(summarize, other) == _refuses(decode_properties, other)
    if not _refuses(summarize, other):
        said = decode_properties(other)
        summary = summarize(other)
        assert (summary.delivery_mode, summary.priority, summary.expiration, summary.reply_to, summary.user_id) == (
            said.delivery_mode,
            said.priority,
            said.expiration,
            said.reply_to,
            said.user_id,
        )


@given(property_lists, st.data())
def test_a_list_cut_short_or_too_long_is_refused(values: BasicProperties, data: st.DataObject) -> None:
    header = encode_header(1, values)
    cut = header[: data.draw(st.integers(0, len(header) - 1))]
    for broken in (header + b"\x00", cut):
        for read in (decode_properties, summarize):
            with pytest.raises(DecodeError):
                read(broken)


@pytest.mark.parametrize(
    ("values", "ordinary"),
    [
        (BasicProperties(), True),
        (BasicProperties(delivery_mode=2, priority=9, message_id="m", reply_to="answers"), True),
        (BasicProperties(delivery_mode=3), False),
        (BasicProperties(expiration="1"), False),
        (BasicProperties(user_id="guest"), False),
        (BasicProperties(reply_to="amq.rabbitmq.reply-to"), False),
        (BasicProperties(headers=from_python({"CC": ["k"]})), False),
        (BasicProperties(headers=from_python({"BCC": ["k"]})), False),
        (BasicProperties(headers=from_python({"other": 1})), True),
    ],
)
def test_a_message_is_ordinary_unless_it_asks_for_something(values: BasicProperties, ordinary: bool) -> None:
    assert summarize(encode_header(1, values)).ordinary is ordinary


@given(st.binary(max_size=40))
def test_the_summary_refuses_what_decoding_refuses(raw: bytes) -> None:
    assert _refuses(decode_properties, bytes(12) + raw) == _refuses(summarize, bytes(12) + raw)


def test_a_second_flags_word_is_refused() -> None:
    for read in (decode_properties, summarize):
        with pytest.raises(DecodeError):
            read(bytes(12) + b"\x00\x01\x00\x00")


def test_the_flag_of_no_property_is_ignored() -> None:
    """RabbitMQ 3.10.8 (decode_properties) reads past the bit below cluster-id."""
    header = bytes(12) + b"\x80\x02\x01a"
    assert decode_properties(header) == BasicProperties(content_type="a")
    assert summarize(header).persistent is False


def test_a_broken_header_table_is_refused_each_time() -> None:
    broken = bytes(12) + b"\x20\x00" + b"\x00\x00\x00\x03\x01aU"
    for _ in range(2):
        with pytest.raises(DecodeError):
            summarize(broken)


def test_the_caches_stay_within_their_bounds() -> None:
    for number in range(properties.CACHE_ENTRIES_MAX + 10):
        headers = from_python({"n": number})
        assert summarize(encode_header(1, BasicProperties(headers=headers))).headers == encode_table(headers)
    assert 0 < len(properties._summaries) <= properties.CACHE_ENTRIES_MAX
    assert 0 < len(properties._sound_tables) <= properties.CACHE_ENTRIES_MAX
    long_list = encode_header(1, BasicProperties(headers=from_python({"n": "x" * 300})))
    assert summarize(long_list) == summarize(long_list)
    assert all(len(part) <= properties.CACHED_BYTES_MAX for part in properties._summaries)


def _refuses(read: object, header: bytes) -> bool:
    try:
        read(header)  # type: ignore[operator]
    except DecodeError:
        return True
    return False
