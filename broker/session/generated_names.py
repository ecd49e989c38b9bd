"""Names for queues, consumers and reply addresses that asked for one."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode


def generated_name(prefix: str) -> str:
    """The prefix ("amq.gen-" of a queue) and 22 random characters, as RabbitMQ makes them."""
    return prefix + urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
