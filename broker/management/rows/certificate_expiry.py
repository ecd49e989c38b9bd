"""Listeners with TLS whose certificates expire soon. They are read from the files, as by the next start."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from broker.session.login.certificate_names import valid_until
from broker.wire.amqp_errors import DecodeError

_CERTIFICATE = re.compile(b"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def expiring(
    listeners: Iterable[Mapping[str, Any]], certificate_file: str, ca_file: str, before: datetime
) -> list[dict[str, Any]]:
    """The listeners whose certificates expire before a moment, or cannot be read. Blocks."""
    ends = {name: _ends(name, before) for name in (certificate_file, ca_file)}
    if not any(ends.values()):
        return []
    return [
        {
            "node": listener["node"],
            "protocol": listener["protocol"],
            "interface": listener["ip_address"],
            "port": listener["port"],
            "certfile": certificate_file,
            "cacertfile": ca_file,
            "certfile_expires_on": ends[certificate_file],
            "cacertfile_expires_on": ends[ca_file],
        }
        for listener in listeners
    ]


def _ends(file: str, before: datetime) -> list[str]:
    """The times at which certificates of a file expire, if before a moment; or the error of reading them."""
    if not file:
        return []
    try:
        ends = [
            valid_until(ssl.PEM_cert_to_DER_cert(pem.decode())) for pem in _CERTIFICATE.findall(Path(file).read_bytes())
        ]
    except (OSError, ValueError, DecodeError) as error:
        return [f"error: {error}"]
    return [f"{end:%Y-%m-%d %H:%M:%S}" for end in ends if end < before] if ends else ["error: no certificate"]
