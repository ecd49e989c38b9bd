"""The targets by name. Each is opened once, and then takes one input after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.fuzz import administration, handshake, session, settings, store, web, wire
from tests.fuzz.choices import Choices

Target = Callable[[Choices], None]

TARGETS: dict[str, Callable[[], AbstractContextManager[Target]]] = {
    "wire": wire.opened,
    "handshake": handshake.opened,
    "session": session.opened,
    "administration": administration.opened,
    "settings": settings.opened,
    "store": store.opened,
    "web": web.opened,
}
