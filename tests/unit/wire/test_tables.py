"""Field tables. The type tags and their names were asked of rabbit_binary_parser, RabbitMQ 3.10.8.

tests/security/fuzz/targets/wire_input.py asserts that skimming a table ends where reading it does, or refuses it too.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import (
    LONG_ARRAY_BYTES,
    NESTING_MAX,
    TYPE_NAMES,
    Field,
    SoundTable,
    decode_table,
    encode_table,
    from_python,
    skim_table,
    to_python,
)

VECTORS = [
    (b"t\x01", Field("t", True)),
    (b"t\x00", Field("t", False)),
    (b"b\xff", Field("b", -1)),
    (b"B\xff", Field("B", 255)),
    (b"s\xff\xfe", Field("s", -2)),
    (b"u\xff\xfe", Field("u", 65534)),
    (b"I\xff\xff\xff\xff", Field("I", -1)),
    (b"i\xff\xff\xff\xff", Field("i", 2**32 - 1)),
    (b"l\xff\xff\xff\xff\xff\xff\xff\xfe", Field("l", -2)),
    (b"L\xff\xff\xff\xff\xff\xff\xff\xfe", Field("L", -2)),
    (b"f\x3f\xc0\x00\x00", Field("f", 1.5)),
    (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", Field("d", 1.5)),
    (b"D\x02\x00\x00\x01\x3a", Field("D", (2, 314))),
    (b"S\x00\x00\x00\x02hi", Field("S", b"hi")),
    (b"x\x00\x00\x00\x02\x00\xff", Field("x", b"\x00\xff")),
    (b"T\x00\x00\x00\x00\x65\x00\x00\x00", Field("T", 0x65000000)),
    (b"A\x00\x00\x00\x03V" + b"t\x01", Field("A", [Field("V", None), Field("t", True)])),
    (b"F\x00\x00\x00\x04\x01kt\x01", Field("F", {"k": Field("t", True)})),
    (b"V", Field("V", None)),
]


@pytest.mark.parametrize(("small", "value"), [(b"V", None), (b"t\1", True), (b"b\xff", -1), (b"B\xff", 255)])
def test_small_fields_are_made_once(small: bytes, value: object) -> None:
    """A frame has room for a hundred thousand of them, which shall not take ten megabytes."""
    array = b"A" + struct.pack(">I", 1000 * len(small)) + small * 1000
    table, _ = decode_table(struct.pack(">I", 1 + len(array)) + b"\0" + array)
    assert [field.value for field in table[""].value] == [value] * 1000
    assert len(set(map(id, table[""].value))) == 1


def block(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@pytest.mark.parametrize(("raw", "field"), VECTORS, ids=[repr(raw) for raw, _ in VECTORS])
def test_each_letter_reads_and_writes_as_rabbitmq_does(raw: bytes, field: Field) -> None:
    wire = block(b"\x01a" + raw)
    assert decode_table(wire) == ({"a": field}, len(wire))
    assert encode_table({"a": field}) == wire
    assert skim_table(wire) == (len(wire), False)
    assert (SoundTable(wire).get("a"), SoundTable(wire).get("b")) == (field, None)


def test_a_long_array_reads_and_writes_as_a_short_one() -> None:
    """With every type tag, in runs and mixed; cut short or with an unknown type tag it is refused."""
    several = [(raw, field) for raw, field in VECTORS for _ in range(50)] + VECTORS * 50
    array = b"".join(raw for raw, _ in several)
    assert len(array) > LONG_ARRAY_BYTES
    wire, fields = block(b"\x01aA" + block(array)), [field for _, field in several]
    table = decode_table(wire)[0]
    assert table == {"a": Field("A", fields)} == decode_table(wire)[0]
    assert list(table["a"].value) == fields
    assert table != decode_table(block(b"\x01aA" + block(array + b"V")))[0]
    assert encode_table(table) == encode_table({"a": Field("A", fields)}) == wire
    assert to_python(table) == to_python({"a": Field("A", fields)})
    assert (skim_table(wire), SoundTable(wire).get("a")) == ((len(wire), False), table["a"])
    for end in (*(b"?" + array, array + b"?"), *(array + raw[:-1] for raw, _ in VECTORS if len(raw) > 1)):
        broken = block(b"\x01aA" + block(end))
        assert _outcome(decode_table, broken) == _outcome(skim_table, broken) == "refused"


def test_tables_in_tables_survive_the_wire() -> None:
    """With every type tag, whole: cut anywhere they are refused. Of two equal keys the first is found."""
    assert {field.kind for _, field in VECTORS} == TYPE_NAMES.keys()
    wire = block(b"\x01at\x01" + b"\x01at\x00")
    assert decode_table(wire)[0] == {"a": Field("t", True)}
    assert SoundTable(wire).get("a") == Field("t", True)
    fields = {raw.hex(): field for raw, field in VECTORS}
    table = {"": Field("F", fields), "\udcff": Field("A", [Field("F", fields), *fields.values()])}
    wire = encode_table(table)
    assert decode_table(b"??" + wire + b"rest", 2) == (table, 2 + len(wire))
    assert skim_table(b"??" + wire + b"rest", 2) == (2 + len(wire), False)
    assert {name: SoundTable(wire).get(name) for name in table} == table
    for end in range(len(wire)):
        assert _outcome(decode_table, wire[:end]) == _outcome(skim_table, wire[:end]) == "refused"


@pytest.mark.parametrize(
    ("names", "told"),
    [("CC", True), ("BCC", True), ("x-death", True), ("cc", False), ("CCC-", False), ("y-death", False), ("C", False)],
)
def test_headers_that_a_broker_obeys_are_told(names: str, told: bool) -> None:
    wire = encode_table({"before": Field("t", True), names: Field("A", [Field("S", b"q")]), "id": Field("V", None)})
    assert skim_table(wire) == (len(wire), told)


@pytest.mark.parametrize("tag", [b"F", b"A"])
def test_nesting_has_a_limit(tag: bytes) -> None:
    def nested(depth: int) -> bytes:
        content = b""
        for level in range(depth - 1):
            named = b"" if tag == b"A" and level < depth - 2 else b"\x01a"
            content = named + tag + block(content)
        return block(content)

    assert skim_table(nested(NESTING_MAX)) == (len(nested(NESTING_MAX)), False)
    assert _outcome(decode_table, nested(NESTING_MAX)) != "refused"
    for refused in (nested(NESTING_MAX + 1), nested(1000)):
        assert _outcome(decode_table, refused) == _outcome(skim_table, refused) == "refused"


def test_python_values_come_and_go() -> None:
    kinds: dict[str, tuple[str, Any]] = {
        "bool": ("t", True),
        "int": ("I", -5),
        "wide": ("l", 2**40),
        "float": ("d", 0.25),
        "str": ("S", "größe"),
        "none": ("V", None),
        "list": ("A", [1, "a", [False]]),
        "dict": ("F", {"k": {"k": 1}}),
    }
    values = {name: value for name, (_, value) in kinds.items()}
    table = from_python(values)
    assert {name: field.kind for name, field in table.items()} == {name: kind for name, (kind, _) in kinds.items()}
    assert to_python(table) == values
    assert from_python({"t": Field("T", 7)}) == {"t": Field("T", 7)}
    with pytest.raises(TypeError):
        from_python({"a": object()})
    with pytest.raises(OverflowError):
        from_python({"a": 2**63})


def _outcome(read: Any, wire: bytes) -> Any:
    try:
        result = read(wire)
    except DecodeError:
        return "refused"
    return result[1] if isinstance(result, tuple) else result
