"""Values of rabbitmq.conf, each kind read as RabbitMQ reads it, and made into what a setting of ours holds.

Whether a number is in range is the setting's to say; here it is checked where RabbitMQ's unit is another than ours.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

Convert = Callable[[str], Any]

_INTEGER = re.compile("[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")
_SIZE = re.compile("([0-9]{1,18})(?:([kmgtp])(i?b?))?", re.IGNORECASE)
_BYTE_SIZE = re.compile("([0-9]{1,18})(?:([KMG])B|([kmg])b)?")
POWERS = {letter: power for power, letter in enumerate("kmgtp", 1)}


class Unfit(Exception):
    """A value is not of its kind; the message says what was expected."""


class RootPath(str):
    """A path in the file system that the configuration is for, which a container's test has in a directory."""


def text(value: str) -> str:
    """Any text, as it is."""
    if value.startswith("encrypted:"):
        raise Unfit("a value in the clear (encrypted ones cannot be read)")
    return value


def path(value: str) -> str:
    """A file."""
    return RootPath(text(value))


def location(value: str) -> str:
    """A file, or a URL of one."""
    return value if value.startswith(("http://", "https://", "file://")) else RootPath(value)


def flag(value: str) -> bool:
    """Yes or no."""
    return bool(one_of({"true": True, "false": False}, value))


def one_of(words: Mapping[str, Any], value: str) -> Any:
    """One of several words."""
    if value not in words:
        raise Unfit(" or ".join(words))
    return words[value]


def integer(value: str) -> int:
    """A number without a fraction."""
    if not _INTEGER.fullmatch(value):
        raise Unfit("a whole number")
    return int(value)


def integer_or(word: str, meaning: int, value: str) -> int:
    """A number without a fraction, or a word that stands for one."""
    return meaning if value == word else integer(value)


def fraction(value: str) -> float:
    """A part of a whole, such as 0.4."""
    if not _NUMBER.fullmatch(value):
        raise Unfit("a number such as 0.4")
    return float(value)


def seconds_of_milliseconds(value: str) -> float:
    """A time in milliseconds; ours are in seconds."""
    if not _INTEGER.fullmatch(value) or int(value) < 1:
        raise Unfit("milliseconds, a whole number from 1 up")
    return int(value) / 1000


def size(value: str) -> int:
    """Bytes, of memory and disk: `2GB` and `2kb` count in thousands, `2GiB`, `2G` and `2k` in 1024s."""
    found = _SIZE.fullmatch(value)
    if found is None:
        raise Unfit("bytes such as 50000000, 2GB or 512MiB")
    if found[2] is None:
        return int(found[1])
    thousand = 1000 if found[3].lower() == "b" else 1024
    return int(int(found[1]) * thousand ** POWERS[found[2].lower()])


def byte_size(value: str) -> int:
    """Bytes, of frames: `KB` and `kb` are 1024 bytes here."""
    found = _BYTE_SIZE.fullmatch(value)
    if found is None:
        raise Unfit("bytes such as 131072 or 128KB")
    unit = (found[2] or found[3] or "").lower()
    return int(int(found[1]) * 1024 ** POWERS.get(unit, 0))


def frame_size(value: str) -> int:
    """Bytes of a frame; 0 is no limit, which is the largest number that tune can name."""
    return byte_size(value) or 2**31 - 1


def memory_share(value: str) -> int:
    """Bytes, as a multiple of the machine's or container's memory."""
    # Imported here: hardly any file asks, and a broker's memory is the server's to know.
    from broker.server.resource_alarms import memory_total

    return int(fraction(value) * memory_total())


def port(value: str) -> int:
    """A TCP port; 0 lets the system choose."""
    if not _INTEGER.fullmatch(value) or not 0 <= int(value) <= 65535:
        raise Unfit("a port between 0 and 65535")
    return int(value)


def ip(value: str) -> str:
    """An address of a network interface."""
    try:
        return str(ipaddress.ip_address(value.strip("[]")))
    except ValueError:
        raise Unfit("an IP address") from None


def listener(value: str) -> list[str]:
    """Return the addresses of a listener: a port on all interfaces, or an address and a port."""
    try:
        host, colon, number = value.rpartition(":")
        return addresses(ip(host) if colon else None, port(number))
    except Unfit:
        raise Unfit("a port such as 5672, or an IP address with a port such as 127.0.0.1:5672 or ::1:5672") from None


def addresses(host: str | None, number: int) -> list[str]:
    """Return addresses to listen on, as our settings have them; without a host, all interfaces of IPv4 and IPv6."""
    if host is not None:
        return [f"[{host}]:{number}" if ":" in host else f"{host}:{number}"]
    return [f"0.0.0.0:{number}", f"[::]:{number}"] if _has_ipv6() else [f"0.0.0.0:{number}"]


def _has_ipv6() -> bool:
    """The kernel may have been started without."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
