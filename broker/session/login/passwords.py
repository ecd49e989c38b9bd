"""Passwords as RabbitMQ keeps them: a four-byte salt and a hash of salt and password, in base64.

The formats are RabbitMQ's `rabbit_password_hashing_sha256` (its default), `rabbit_password_hashing_sha512` and, of its
versions before 3.6, `rabbit_password_hashing_md5`: so hashes move between the two brokers in definitions files. A user
with an empty hash cannot log in with a password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable

SHA256 = "rabbit_password_hashing_sha256"
SHA512 = "rabbit_password_hashing_sha512"
MD5 = "rabbit_password_hashing_md5"

ALGORITHMS: dict[str, Callable[[bytes], bytes]] = {
    SHA256: lambda data: hashlib.sha256(data).digest(),
    SHA512: lambda data: hashlib.sha512(data).digest(),
    MD5: lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}

SALT_BYTES = 4

NOBODYS = (base64.b64encode(os.urandom(SALT_BYTES + 32)).decode("ascii"), SHA256)
"""A hash of no password, and its algorithm: the password for an unknown user is compared with it."""


def hash_password(password: bytes, salt: bytes | None = None, algorithm: str = SHA256) -> str:
    """Hash a password, with a random salt unless one is given. Raises KeyError for an unknown algorithm."""
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    return base64.b64encode(salt + ALGORITHMS[algorithm](salt + password)).decode("ascii")


def verify(password: bytes, stored: str, algorithm: str = SHA256) -> bool:
    """Return whether `stored` is a hash of `password`; takes the same time wherever they differ.

    False for an empty password (RabbitMQ refuses them), an empty or malformed hash and an unknown algorithm, after as
    much hashing: the time does not tell whether a user has a password.
    """
    usable = bool(password) and algorithm in ALGORITHMS
    raw = _decoded(stored)
    if len(raw) <= SALT_BYTES or algorithm not in ALGORITHMS:
        usable = False
        raw, algorithm = _decoded(NOBODYS[0]), NOBODYS[1]
    digest = ALGORITHMS[algorithm](raw[:SALT_BYTES] + password)
    return hmac.compare_digest(digest, raw[SALT_BYTES:]) and usable


def is_hash(text: str) -> bool:
    """Return whether a text can be stored as a hash: it is base64, or empty."""
    return not text or bool(_decoded(text))


def _decoded(stored: str) -> bytes:
    try:
        return base64.b64decode(stored, validate=True)
    except (binascii.Error, ValueError):
        return b""
