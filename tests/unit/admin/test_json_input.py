"""JSON read by the window is what it is when decoded at once. Too much of it is refused, and what cannot be kept."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from broker.admin.json_input import json_reader
from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.json_reader import VALUES_MAX, read_json
from broker.admin.json_input.strict_json import UnreadableJson, decode_json

TEXTS = ["", "x" * 150, '\U0001f600\xe9"\\\n' * 20, "\ud800", "\udc00\ud83d" * 20, "\udcff", "plain"]
NUMBERS = [1, 12345678, -1.5, 1e300, 5e-324, True, False, None]
SMALL_WINDOW_BYTES = 64
DAMAGE = b'[]{},:"\\u1e.-\xff a'


def made_up(chance: random.Random, depth: int = 0) -> Any:
    """A value of any kind, whose texts and lists are longer than a window now and then."""
    kind = chance.random()
    if depth > 5 or kind < 0.4:
        return chance.choice([*TEXTS, *NUMBERS])
    if kind < 0.7:
        return [made_up(chance, depth + 1) for _ in range(chance.randrange(8))]
    return {f"k{chance.randrange(99)} \xe9": made_up(chance, depth + 1) for _ in range(chance.randrange(8))}


def damaged(chance: random.Random, text: bytes) -> bytearray:
    """A text with a few bytes at one place replaced, removed or put in."""
    broken, at = bytearray(text), chance.randrange(len(text))
    broken[at : at + chance.randrange(3)] = bytes(chance.choices(DAMAGE, k=chance.randrange(3)))
    return broken


def decoded(text: bytes) -> Any:
    """The value in a list; nothing where there is none."""
    try:
        return [decode_json(text)]
    except ValueError:
        return []


def is_long(value: Any) -> bool:
    """There is a name that does not fit a window, as damage may make one of several texts."""
    if isinstance(value, dict):
        return any(len(name.encode("utf-8", "surrogatepass")) > 20 for name in value) or any(
            map(is_long, value.values())
        )
    return isinstance(value, list) and any(map(is_long, value))


def in_parts(chance: random.Random, text: bytes) -> BodyParts:
    """A text as it may arrive: in pieces of any size, kept in parts smaller than a window."""
    parts, at = BodyParts(part_bytes=chance.randrange(1, 50)), 0
    while at < len(text):
        size = chance.choice([1, 10, 200])
        parts.append(text[at : at + size])
        at += size
    return parts


async def either(text: bytes) -> Any:
    """The same by the reader."""
    try:
        return [await read_json(BodyParts(text))]
    except ValueError:
        return []


async def walk(seed: int, texts: int) -> None:
    """Read texts, sound and damaged, through a small window and by the decoder."""
    chance = random.Random(seed)
    for _ in range(texts):
        text = json.dumps(made_up(chance), indent=chance.choice([None, 1])).encode()
        assert await read_json(BodyParts(text)) == await read_json(in_parts(chance, text)) == decode_json(text)
        broken = bytes(damaged(chance, text))
        found, expected = await either(broken), decoded(broken)
        assert found == expected or (not found and any(map(is_long, expected))), broken


@pytest.mark.parametrize("seed", range(2))
async def test_it_is_what_the_decoder_makes_of_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "WINDOW_BYTES", SMALL_WINDOW_BYTES)
    await walk(seed, 40)


@pytest.mark.parametrize("encoded", ["\ud83d\ude00" * 20_000, '"\\' * 40_000, "\xe9" * 70_000, "\udcff" * 30_000])
@pytest.mark.parametrize("escaped", [True, False])
async def test_a_long_text_may_come_as_its_bytes(encoded: str, escaped: bool) -> None:
    text = json.loads(json.dumps(encoded))
    body = json.dumps([text], ensure_ascii=escaped or "\udcff" in text).encode()
    assert await read_json(BodyParts(body)) == [text]
    assert await read_json(BodyParts(body), long_as_bytes=True) == [text.encode("utf-8", "surrogateescape")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" + b"1," * VALUES_MAX + b"1]", "more than 5000 values"),
        (b"[" + b"[]," * 10_000_000, "more than 5000 values"),
        (b"{" + b",".join(b'"%d":1' % number for number in range(VALUES_MAX)) + b"}", "more than 5000 values"),
        (b"[" * 101 + b"]" * 101, "nested too deeply"),
        (b"[" * 101 + b'"' + b"x" * 40_000 + b'"' + b"]" * 101, "nested too deeply"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"1e999", "beyond the range of a double"),
    ],
)
async def test_too_much_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(UnreadableJson, match=reason):
        await read_json(BodyParts(body))


async def test_as_much_as_may_be_is_read() -> None:
    assert len(await read_json(BodyParts(b"[" + b"1," * (VALUES_MAX - 2) + b"1]"))) == VALUES_MAX - 1
    assert await read_json(BodyParts(b"[" * 100 + b"]" * 100))
