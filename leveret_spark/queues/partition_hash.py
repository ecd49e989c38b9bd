"""The partition of a super stream for a value, as RabbitMQ's stream clients choose it: MurmurHash3 of its bytes."""

from __future__ import annotations

from typing import Any

SEED = 104_729
"""The seed of RabbitMQ's clients for Java, Go, .NET and Python."""
MASK = 0xFFFFFFFF
FIRST, SECOND = 0xCC9E2D51, 0x1B873593


def partition_of(value: Any, partitions: int) -> int:
    """Return the number of the partition for a value: bytes as they are, others as text in UTF-8."""
    data = bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode()
    return murmur3(data, SEED) % partitions


def murmur3(data: bytes, seed: int) -> int:
    """MurmurHash3 of 32 bits, for x86."""
    state, whole = seed, len(data) & ~3
    for at in range(0, whole, 4):
        state = _rotated(state ^ _mixed(int.from_bytes(data[at : at + 4], "little")), 13) * 5 + 0xE6546B64 & MASK
    state ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    return state ^ state >> 16


def _mixed(word: int) -> int:
    return _rotated(word * FIRST & MASK, 15) * SECOND & MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & MASK
