"""The partition of a super stream for a row, as RabbitMQ's stream clients choose it: MurmurHash3 of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SEED = 104_729
"""The seed of RabbitMQ's stream clients for Java, Go, .NET and Rust."""
MASK = 0xFFFFFFFF
FIRST, SECOND = 0xCC9E2D51, 0x1B873593
BETWEEN = b":"
"""The byte between the values of several columns."""
PARTITION = "partition"
"""The column that names a partition by its number, as that of Spark's sink for Kafka does."""


@dataclass(frozen=True)
class SuperStreamPartitions:
    """The keys that lead to the partitions, in their order, and the columns of a row that choose among them."""

    keys: tuple[str, ...]
    hash_columns: tuple[str, ...]

    def key(self, row: Mapping[str, Any], number: int) -> str:
        """Return the key for a row: by its column `partition`, else by the hash of its columns.

        A row that has none of the values goes to one partition after the other, by its number: a task that is run
        again sends it to the same. Raises IndexError, with words, for a partition that is not there.
        """
        chosen = row.get(PARTITION)
        if chosen is None:
            values = [row[name] for name in self.hash_columns]
            by_hash = any(each is not None for each in values)
            return self.keys[partition_of(values, len(self.keys)) if by_hash else number % len(self.keys)]
        if not 0 <= chosen < len(self.keys):
            raise IndexError(f"{chosen} is not from 0 to {len(self.keys) - 1}")
        return self.keys[int(chosen)]


def partition_of(values: list[Any], partitions: int) -> int:
    """Return the number of the partition for values: bytes as they are, others as text in UTF-8, None as nothing."""
    return murmur3(BETWEEN.join(map(_hashed, values)), SEED) % partitions


def _hashed(value: Any) -> bytes:
    if value is None:
        return b""
    return bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode()


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
