"""The targets by name. Each is opened once, and then takes one input after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.security.fuzz.choices import Choices
from tests.security.fuzz.targets import (
    administration_input,
    handshake_input,
    http_input,
    session_input,
    settings_input,
    store_records,
    wire_input,
)

Target = Callable[[Choices], None]

TARGETS: dict[str, Callable[[], AbstractContextManager[Target]]] = {
    "wire": wire_input.opened,
    "handshake": handshake_input.opened,
    "session": session_input.opened,
    "administration": administration_input.opened,
    "settings": settings_input.opened,
    "store": store_records.opened,
    "web": http_input.opened,
}
