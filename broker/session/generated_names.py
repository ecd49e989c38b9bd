"""Generated names of queues, consumers and reply addresses."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode


def generated_name(prefix: str) -> str:
    """Return the prefix ("amq.gen-" of a queue) and 22 random characters, as RabbitMQ does."""
    return prefix + urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
