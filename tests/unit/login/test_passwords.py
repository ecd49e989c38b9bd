"""RabbitMQ's password hashes."""

from __future__ import annotations

import base64
import hashlib

import pytest

from broker.session.login.passwords import ALGORITHMS, NOBODYS, SALT_BYTES, SHA256, SHA512, hash_password, verify


def test_hashes_are_rabbitmq_s() -> None:
    """RabbitMQ's documentation, "Credentials and Passwords"; and the user `guest` in a definitions export of 3.10.8.

    The password matches by the algorithm that hashed it; the empty one and malformed hashes never do.
    """
    assert hash_password(b"test12", bytes.fromhex("908DC60A")) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert verify(b"guest", "cy5jhTOzvPwW/r8UIJnD7L7Tvjpma+Zg/9w/ShS5ixqGU0Jq")
    assert len({hash_password(b"p") for _ in range(20)}) == 20, "salts differ"
    for algorithm in (SHA256, SHA512):
        stored = hash_password(b"s3cret", algorithm=algorithm)
        assert verify(b"s3cret", stored, algorithm)
        assert not verify(b"s3cre", stored, algorithm)
        assert not verify(b"S3cret", stored, algorithm)
    assert not verify(b"p", hash_password(b"p", algorithm=SHA512), SHA256)
    assert not verify(b"p", hash_password(b"p"), "rabbit_password_hashing_md5")
    assert not verify(b"", hash_password(b""))
    for stored in ("", "not base64!", "QUJD", base64.b64encode(bytes(36)).decode(), "é"):
        assert not verify(b"", stored), stored
        assert not verify(b"p", stored), stored


@pytest.mark.parametrize(
    ("stored", "algorithm"),
    [
        (hash_password(b"right"), SHA256),
        ("", SHA256),
        ("not base64!", SHA256),
        (hash_password(b"right"), "rabbit_password_hashing_none"),
        NOBODYS,
    ],
    ids=["a user", "without a password", "malformed", "unknown algorithm", "nobody"],
)
def test_every_wrong_password_costs_one_hash_of_the_same_length(
    monkeypatch: pytest.MonkeyPatch, stored: str, algorithm: str
) -> None:
    """The clock does not tell who exists, or who has a password: the work is the same, whatever is stored."""
    hashed: list[int] = []

    def counted(data: bytes) -> bytes:
        hashed.append(len(data))
        return hashlib.sha256(data).digest()

    monkeypatch.setitem(ALGORITHMS, SHA256, counted)
    assert not verify(b"wrong", stored, algorithm)
    assert hashed == [SALT_BYTES + len(b"wrong")]
