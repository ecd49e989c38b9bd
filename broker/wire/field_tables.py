"""Field tables in RabbitMQ's dialect.

The specification gives some type codes a meaning that no broker follows: `s` is a signed 16-bit number here, not a
short string, and `L` is signed. The codes, their meaning and their names are those of rabbit_binary_parser (RabbitMQ
3.10.8, asked code by code). A code outside the list cannot be decoded.

A table keeps each value with its code, so that a decoded table is written back byte for byte: equivalence rules and
error texts need the type a client chose, and headers pass through unchanged.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from broker.wire.amqp_errors import DecodeError

NESTING_MAX = 64
"""Deepest nesting of tables and arrays; deeper ones are refused, so that a small message cannot exhaust the stack."""

LONG_ARRAY_BYTES = 1024
"""Size from which an array is only validated when it is decoded; its fields are made when they are read."""

Buffer = bytes | memoryview


class Field(NamedTuple):
    """One value of a table: its type code, and the Python value.

    t bool; b B s u I i l L T int (T in seconds since the epoch); f d float; D (scale, unscaled value);
    S x bytes; A list of Field, or LongArray; F Table; V None.
    """

    kind: str
    value: Any


Table = dict[str, Field]


class Fields(Protocol):
    """Fields by name: a `Table`, or a `SoundTable` that decodes them when they are read."""

    def get(self, name: str, /) -> Field | None:
        """Return the field of this name, or None."""


TYPE_NAMES = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
}
"""RabbitMQ's name of each type in its reply texts, by type code."""

INTEGER_KINDS = frozenset("bBsuIilL")
"""Codes of integer types, which are compared by value whatever their width."""

_LENGTH = struct.Struct(">I")
_DECIMAL = struct.Struct(">BI")
_NUMBERS = {
    "b": struct.Struct(">b"),
    "B": struct.Struct(">B"),
    "s": struct.Struct(">h"),
    "u": struct.Struct(">H"),
    "I": struct.Struct(">i"),
    "i": struct.Struct(">I"),
    "l": struct.Struct(">q"),
    "L": struct.Struct(">q"),
    "T": struct.Struct(">Q"),
    "f": struct.Struct(">f"),
    "d": struct.Struct(">d"),
}

# --- reading: every reader takes (data, offset after the code, depth) and gives (value, end) ---


def _number_reader(packed: struct.Struct) -> Callable[[Buffer, int, int], tuple[Any, int]]:
    def read(data: Buffer, offset: int, depth: int) -> tuple[Any, int]:
        return packed.unpack_from(data, offset)[0], offset + packed.size

    return read


def _read_decimal(data: Buffer, offset: int, depth: int) -> tuple[Any, int]:
    return _DECIMAL.unpack_from(data, offset), offset + _DECIMAL.size


def _read_bytes(data: Buffer, offset: int, depth: int) -> tuple[Any, int]:
    end = _end_of_block(data, offset)
    return bytes(data[offset + 4 : end]), end


def _read_array(data: Buffer, offset: int, depth: int) -> tuple[Any, int]:
    if depth > NESTING_MAX:
        raise DecodeError("nested too deeply")
    end = _end_of_block(data, offset)
    if end - offset >= LONG_ARRAY_BYTES:
        block = bytes(data[offset:end])
        _skim(block, 0, depth, False)
        return LongArray(block), end
    return _read_items(data, offset + 4, end, depth), end


def _read_items(data: Buffer, offset: int, end: int, depth: int) -> list[Field]:
    items = []
    while offset < end:
        small = _SMALL[data[offset]]
        if small is None:
            field, offset = _read_field(data, offset, depth)
        elif len(small) == 1:
            field, offset = small[0], offset + 1
        else:
            field, offset = small[data[offset + 1]], offset + 2
        items.append(field)
    if offset != end:
        raise DecodeError("array overruns its length")
    return items


def _read_table(data: Buffer, offset: int, depth: int) -> tuple[Any, int]:
    if depth > NESTING_MAX:
        raise DecodeError("nested too deeply")
    end = _end_of_block(data, offset)
    table: Table = {}
    offset += 4
    while offset < end:
        name_end = offset + 1 + data[offset]
        name = bytes(data[offset + 1 : name_end]).decode("utf-8", "surrogateescape")
        field, offset = _read_field(data, name_end, depth)
        table.setdefault(name, field)  # of two equal keys RabbitMQ's look-up finds the first
    if offset != end:
        raise DecodeError("table overruns its length")
    return table, end


_READERS: dict[int, tuple[str, Callable[[Buffer, int, int], tuple[Any, int]]]] = {
    **{ord(kind): (kind, _number_reader(packed)) for kind, packed in _NUMBERS.items()},
    ord("D"): ("D", _read_decimal),
    ord("S"): ("S", _read_bytes),
    ord("x"): ("x", _read_bytes),
    ord("A"): ("A", _read_array),
    ord("F"): ("F", _read_table),
}


class LongArray:
    """A long array, kept encoded; its fields are made each time they are read. A frame can have 130,000 of them.

    Equals a list of equal fields, and has its repr.
    """

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        """The validated array, with its length prefix."""

    def __iter__(self) -> Iterator[Field]:
        return iter(_read_items(self.encoded, 4, len(self.encoded), 1))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LongArray) and self.encoded == other.encoded:
            return True
        return isinstance(other, LongArray | list) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


_SMALL: list[list[Field] | None] = [None] * 256
"""By code: the field of a type without data, or the 256 fields of a one-byte type. They are made once, so that an
array of 130,000 is quick to read and does not take a hundred times its size in memory."""
_SMALL[ord("V")] = [Field("V", None)]
_SMALL[ord("t")] = [Field("t", byte != 0) for byte in range(256)]
_SMALL[ord("b")] = [Field("b", byte - (byte & 128) * 2) for byte in range(256)]
_SMALL[ord("B")] = [Field("B", byte) for byte in range(256)]


def _read_field(data: Buffer, offset: int, depth: int) -> tuple[Field, int]:
    small = _SMALL[data[offset]]
    if small is not None:
        return (small[0], offset + 1) if len(small) == 1 else (small[data[offset + 1]], offset + 2)
    kind, read = _READERS[data[offset]]
    value, end = read(data, offset + 1, depth + 1)
    return Field(kind, value), end


def _end_of_block(data: Buffer, offset: int) -> int:
    end = offset + 4 + int(_LENGTH.unpack_from(data, offset)[0])
    if end > len(data):
        raise DecodeError("length runs past the end")
    return end


def decode_table(data: Buffer, offset: int = 0) -> tuple[Table, int]:
    """Read a table with its length prefix; return it and the offset behind it.

    Raises DecodeError on truncated data, an unknown type code, a wrong length, or nesting over NESTING_MAX.
    """
    try:
        return _read_table(data, offset, 1)
    except (IndexError, KeyError, struct.error) as error:
        raise DecodeError("broken field table") from error


# --- writing ---


def _write_table(table: Table) -> bytes:
    parts = []
    for name, field in table.items():
        raw = name.encode("utf-8", "surrogateescape")
        parts.append(bytes((len(raw),)) + raw + _write_field(field))
    return _block(b"".join(parts))


def _number_writer(packed: struct.Struct) -> Callable[[Any], bytes]:
    return packed.pack


def _block(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    **{kind: _number_writer(packed) for kind, packed in _NUMBERS.items()},
    "t": lambda value: b"\x01" if value else b"\x00",
    "D": lambda value: _DECIMAL.pack(*value),
    "S": _block,
    "x": _block,
    "A": lambda value: value.encoded if isinstance(value, LongArray) else _block(b"".join(map(_write_field, value))),
    "F": _write_table,
    "V": lambda value: b"",
}


def _write_field(field: Field) -> bytes:
    return field.kind.encode("ascii") + _WRITERS[field.kind](field.value)


def encode_table(table: Table) -> bytes:
    """Return the table with its length prefix.

    Raises KeyError for an unknown type code, ValueError for a name over 255 bytes, struct.error for a number out of
    its code's range.
    """
    return _write_table(table)


# --- walking the structure only ---

# Bytes from the type code to the next field, the code included. Negative: the length is in the data.
_WITH_LENGTH, _NESTED_TABLE, _NESTED_ARRAY, _UNKNOWN, _FIXED_SIZE = -1, -2, -3, -4, -5
_STEPS = [_UNKNOWN] * 256
for _kind, _packed in _NUMBERS.items():
    _STEPS[ord(_kind)] = 1 + _packed.size
_STEPS[ord("t")], _STEPS[ord("D")], _STEPS[ord("V")] = 2, 1 + _DECIMAL.size, 1
_STEPS[ord("S")] = _STEPS[ord("x")] = _WITH_LENGTH
_STEPS[ord("F")], _STEPS[ord("A")] = _NESTED_TABLE, _NESTED_ARRAY

_ITEM_STEPS = [_FIXED_SIZE if _step > 0 else _step for _step in _STEPS]
"""The same in an array, where consecutive fields of fixed size are skipped with one regular expression."""
_fixed_sizes = re.compile(
    rb"(?:V++|(?:[tbB].)++|(?:[su]..)++|(?:[iIf].{4})++|(?:D.{5})++|(?:[lLTd].{8})++)++", re.DOTALL
).match


def skim_table(data: bytes, offset: int = 0) -> tuple[int, bool]:
    """Validate a table with its length prefix; return the offset behind it, and whether a broker has to read it.

    It has to if a name is CC, BCC or x-death. Accepts exactly what decode_table accepts. Raises DecodeError.
    """
    try:
        return _skim(data, offset, 1, True)
    except IndexError as error:
        raise DecodeError("broken field table") from error


def _skim(data: bytes, offset: int, depth: int, named: bool) -> tuple[int, bool]:
    # Called for each message with headers: one loop, no call per field.
    telling = False
    if depth > NESTING_MAX:
        raise DecodeError("nested too deeply")
    # Lengths by shifts, here and below, because a struct would be a call per field.
    end = offset + 4 + (data[offset] << 24 | data[offset + 1] << 16 | data[offset + 2] << 8 | data[offset + 3])
    if end > len(data):
        raise DecodeError("length runs past the end")
    offset += 4
    steps = _STEPS if named else _ITEM_STEPS
    while offset < end:
        if named:
            size = data[offset]
            # The names that a broker acts on have 7, 2 or 3 bytes: others are not sliced.
            if size == 7:
                telling = telling or data[offset + 1 : offset + 8] == b"x-death"
            elif size == 2 or size == 3:
                telling = telling or data[offset + size - 1 : offset + size + 1] == b"CC"
            offset += size + 1
        step = steps[data[offset]]
        if step > 0:
            offset += step
        elif step == _WITH_LENGTH:
            offset += 5 + (data[offset + 1] << 24 | data[offset + 2] << 16 | data[offset + 3] << 8 | data[offset + 4])
        elif step == _FIXED_SIZE:
            # One match for a run of fields: an array of 130,000 booleans is not a loop of 130,000 steps.
            fixed = _fixed_sizes(data, offset, end)
            if fixed is None:
                raise DecodeError("array overruns its length")
            offset = fixed.end()
        elif step == _UNKNOWN:
            raise DecodeError(f"unknown field type {data[offset : offset + 1]!r}")
        else:
            offset, _ = _skim(data, offset + 1, depth + 1, step == _NESTED_TABLE)
    # Fields were skipped by their sizes without a look at `end`, so the last one may have passed it.
    if offset != end:
        raise DecodeError("table overruns its length")
    return end, telling


def fields_named(data: bytes, offset: int, names: Container[bytes]) -> dict[bytes, Field]:
    """Read some fields of a table that `skim_table` accepts, at `offset` with its length prefix; others are skipped."""
    found: dict[bytes, Field] = {}
    end = offset + 4 + int(_LENGTH.unpack_from(data, offset)[0])
    offset += 4
    while offset < end:
        name_end = offset + 1 + data[offset]
        name, offset = data[offset + 1 : name_end], name_end
        if name in names and name not in found:
            found[name], offset = _read_field(data, offset, 1)
        elif (step := _STEPS[data[offset]]) > 0:
            offset += step
        else:
            offset += 5 + int(_LENGTH.unpack_from(data, offset + 1)[0])
    return found


class SoundTable:
    """An encoded table that skim_table accepts; each field is decoded when it is first read.

    Nested tables and arrays are skipped until then.
    """

    __slots__ = ("_data", "_places", "_read")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._places: dict[bytes, int] = {}
        self._read: dict[str, Field | None] = {}
        steps, places, offset, end = _STEPS, self._places, 4, len(data)
        while offset < end:
            letter = offset + data[offset] + 1
            places.setdefault(data[offset + 1 : letter], letter)
            step = steps[data[letter]]
            offset = letter + step if step > 0 else _end_of_block(data, letter + 1)

    def get(self, name: str) -> Field | None:
        """Return the field of this name, or None."""
        try:
            return self._read[name]
        except KeyError:
            place = self._places.get(name.encode("utf-8", "surrogateescape"))
            field = self._read[name] = None if place is None else _read_field(self._data, place, 1)[0]
            return field


# --- Python values ---


def from_python(values: Mapping[str, Any]) -> Table:
    """Return a table of plain Python values.

    bool becomes t, int I or l by its size, float d, str and bytes S, None V, a list A, a mapping F. A Field is kept.
    Raises TypeError for other values and OverflowError for an int over 64 bits.
    """
    return {name: _field_of(value) for name, value in values.items()}


def string(text: str) -> Field:
    """Return a long string field."""
    return Field("S", text.encode("utf-8", "surrogateescape"))


def plain_value(field: Field) -> Any:
    """Return a field's value; long strings and byte arrays as text."""
    return field.value.decode("utf-8", "surrogateescape") if isinstance(field.value, bytes) else field.value


def _field_of(value: Any) -> Field:
    match value:
        case Field():
            return value
        case bool():
            return Field("t", value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise OverflowError(f"{value} does not fit 64 bits")
            return Field("I" if -(2**31) <= value < 2**31 else "l", value)
        case float():
            return Field("d", value)
        case str():
            return string(value)
        case bytes():
            return Field("S", value)
        case None:
            return Field("V", None)
        case list():
            return Field("A", [_field_of(item) for item in value])
        case Mapping():
            return Field("F", from_python(value))
    raise TypeError(f"no field type for {type(value).__name__}")


def to_python(table: Table) -> dict[str, Any]:
    """Return plain Python values: long strings as str (lossless, surrogateescape), byte arrays as bytes."""
    return {name: _value_of(field) for name, field in table.items()}


def _value_of(field: Field) -> Any:
    match field.kind:
        case "S":
            return field.value.decode("utf-8", "surrogateescape")
        case "A":
            return [_value_of(item) for item in field.value]
        case "F":
            return to_python(field.value)
    return field.value
