"""Erlang's `phash2` and the jump consistent hash, bit for bit as RabbitMQ's hash exchanges compute them.

So a migrated user finds each key in the same queue as before. Both were compared with Erlang's over many values;
tests/unit/exchanges/test_erlang_hash.py has a sample of its answers.

- `erlang:phash2`, the portable hash of a term: Bob Jenkins' mixing function of 1996 over the term's parts, each kind
  of term with a constant of its own.
- The jump consistent hash of Lamping and Veach: among n buckets a key is in the one where its last jump before n
  ended. With one bucket more only the keys whose next jump ends there move. The jumps are drawn from the generator
  `exs1024` (xorshift1024*), seeded with the key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from broker.entities.arguments.erlang_terms import Atom, Term

_WORD = 0xFFFFFFFF
_LONG = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B9
_RANGE = 1 << 27
_SMALL = 1 << 27
"""Integers outside [-_SMALL, _SMALL) are hashed as bignums."""

_OF_NIL = 3468870702
_NIL_TAG = 2


def phash2(term: Term, below: int = _RANGE) -> int:
    """Return Erlang's portable hash of a term, below `below`, which is at most 1 << 32."""
    return _hashed(term, 0) % below


def _hashed(term: Term, seed: int) -> int:
    if isinstance(term, bytes):
        return _of_bytes(term, (_constant(13) + seed) & _WORD)
    if isinstance(term, Atom):
        name = _of_name(term.name)
        return _mix_pair(name, 0, 3, seed) if seed else name
    if isinstance(term, tuple):
        return _of_items(term, _mix_pair(len(term), 0, 9, seed))
    if isinstance(term, list):
        seed = _of_items(term, seed)
        return _mix_pair(_NIL_TAG, 0, 2, seed) if seed else _OF_NIL
    if isinstance(term, float):
        high, low = struct.unpack(">II", struct.pack(">d", term or 0.0))
        return _mix_pair(high, low, 12, seed)
    return _of_integer(term, seed)


def _of_items(terms: tuple[Term, ...] | list[Term], seed: int) -> int:
    for term in terms:
        seed = _hashed(term, seed)
    return seed


def _of_integer(number: int, seed: int) -> int:
    if -_SMALL <= number < _SMALL:
        if number < 0:
            seed = _mix_pair(-number, 0, 1, seed)
        return _mix_pair(number & _WORD, 0, 1, seed)
    rest, kind = abs(number), 10 if number < 0 else 11
    while rest:
        seed = _mix_pair(rest & _WORD, rest >> 32 & _WORD, kind, seed)
        rest >>= 64
    return seed


def _of_name(name: str) -> int:
    """Return P. J. Weinberger's hash of an atom, as Erlang's atom table does. Our atoms are ASCII names of types."""
    total = 0
    for byte in name.encode("ascii"):
        total = (total << 4) + byte
        high = total & 0xF0000000
        total = (total ^ high >> 24 ^ high) & _WORD
    return total


def _of_bytes(data: bytes, seed: int) -> int:
    if not data:
        return seed
    a = b = _GOLDEN
    c = seed
    whole = len(data) - len(data) % 12
    for x, y, z in struct.iter_unpack("<III", data[:whole]):
        a, b, c = _mix(a + x, b + y, c + z)
    rest = data[whole:]
    x, y, z = (int.from_bytes(rest[start : start + 4], "little") for start in (0, 4, 8))
    return _mix(a + x, b + y, c + len(data) + (z << 8))[2]  # the lowest byte of the third word is the length's


def _constant(kind: int) -> int:
    return _GOLDEN * kind & _WORD


def _mix_pair(one: int, other: int, kind: int, seed: int) -> int:
    constant = _constant(kind)
    return _mix(constant + one, constant + other, seed)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = a - b - c & _WORD ^ (c & _WORD) >> 13
    b = (b - c - a ^ a << 8) & _WORD
    c = c - a - b & _WORD ^ b >> 13
    a = a - b - c & _WORD ^ c >> 12
    b = (b - c - a ^ a << 16) & _WORD
    c = c - a - b & _WORD ^ b >> 5
    a = a - b - c & _WORD ^ c >> 3
    b = (b - c - a ^ a << 10) & _WORD
    c = c - a - b & _WORD ^ b >> 15
    return a, b, c


def jump(key: int, buckets: int) -> int:
    """Return the bucket of a key, from 0 to `buckets` - 1. `buckets` is at least 1."""
    draws = _exs1024(key)
    bucket = following = 0
    while following < buckets:
        bucket = following
        following = int((bucket + 1) / next(draws))
    return bucket


def _exs1024(seed: int) -> Iterator[float]:
    """Yield numbers between 0 and 1, as `rand:uniform_s` does from `rand:seed_s(exs1024, {Seed, Seed, Seed})`."""
    state = _exs1024_state(seed)
    at = 0
    while True:
        one, at = state[at], (at + 1) % 16
        other = state[at]
        other ^= other << 31 & _LONG
        state[at] = drawn = other ^ other >> 11 ^ one ^ one >> 30
        yield (drawn * 1181783497276652981 & _LONG) / 2**64


def _exs1024_state(seed: int) -> list[int]:
    """Return sixteen numbers of the generator xorshift64*, the last one first."""
    low = (seed & 0x1FFFFF) + 1
    parts = [low * factor & 0x1FFFFF for factor in (2097131, 2097133, 2097143)]
    last = parts[0] << 43 | parts[1] << 22 | parts[2] << 1 | 1
    state = []
    for _ in range(16):
        last ^= last >> 12
        last ^= last << 25 & _LONG
        last ^= last >> 27
        state.append(last * 2685821657736338717 & _LONG)
    return state[::-1]
