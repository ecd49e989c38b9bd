"""PCRE2 by the system's library: patterns are compiled once, and searched in bounded steps and memory.

Linux distributions have `libpcre2-8`, because grep, git and SELinux are linked with it; where it is missing, patterns
that need it are refused with the names of its packages. One thread may use this at a time.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import NamedTuple

LIBRARY = "libpcre2-8.so.0"
MISSING = "libpcre2-8 is not installed (Debian: libpcre2-8-0; Alpine, Fedora, Arch: pcre2)"
NO_MATCH = -1
MESSAGE_BYTES = 256

_POINTER, _SIZE, _NUMBER, _CODE, _TEXT = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_uint32,
    ctypes.c_int,
    ctypes.c_char_p,
)
FUNCTIONS = {
    "compile": (_POINTER, _TEXT, _SIZE, _NUMBER, ctypes.POINTER(_CODE), ctypes.POINTER(_SIZE), _POINTER),
    "code_free": (None, _POINTER),
    "match_context_create": (_POINTER, _POINTER),
    "set_match_limit": (_CODE, _POINTER, _NUMBER),
    "set_heap_limit": (_CODE, _POINTER, _NUMBER),
    "match_data_create": (_POINTER, _NUMBER, _POINTER),
    "match": (_CODE, _POINTER, _TEXT, _SIZE, _SIZE, _NUMBER, _POINTER, _POINTER),
    "get_error_message": (_CODE, _CODE, _TEXT, _SIZE),
}
"""What is called: the type of its result, then those of its arguments."""


class Pcre2Error(Exception):
    """What PCRE2 says of a pattern or a search; `position` is the byte of a pattern where that shows."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason)
        self.position = position


class Engine(NamedTuple):
    """The library, and what a search works with: limits, and memory that is kept for the next one."""

    library: ctypes.CDLL
    limits: int
    memory: int


class Expression:
    """A compiled pattern, over bytes."""

    def __init__(self, pattern: bytes, engine: Engine) -> None:
        """Raises Pcre2Error."""
        self._engine = engine
        self._code: int = 0
        code, position = _CODE(), _SIZE()
        found = engine.library.pcre2_compile_8(
            pattern, len(pattern), 0, ctypes.byref(code), ctypes.byref(position), None
        )
        if not found:
            raise Pcre2Error(_message(engine, code.value), position.value)
        self._code = found

    def __del__(self) -> None:
        if self._code:
            self._engine.library.pcre2_code_free_8(self._code)

    def search(self, text: bytes) -> bool:
        """Whether it is found anywhere. Raises Pcre2Error when it is given up."""
        library, limits, memory = self._engine
        found: int = library.pcre2_match_8(self._code, text, len(text), 0, 0, memory, limits)
        if found < NO_MATCH:
            raise Pcre2Error(_message(self._engine, found))
        return found != NO_MATCH


@cache
def engine(steps_max: int, heap_kibibytes_max: int) -> Engine:
    """PCRE2 with these limits on each search. Raises Pcre2Error when the system has none."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise Pcre2Error(MISSING) from None
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, f"pcre2_{name}_8")
        function.restype, function.argtypes = result, arguments
    limits, memory = library.pcre2_match_context_create_8(None), library.pcre2_match_data_create_8(1, None)
    if not limits or not memory:
        raise MemoryError("PCRE2 was given no memory")
    library.pcre2_set_match_limit_8(limits, steps_max)
    library.pcre2_set_heap_limit_8(limits, heap_kibibytes_max)
    return Engine(library, limits, memory)


def _message(engine: Engine, code: int) -> str:
    text = ctypes.create_string_buffer(MESSAGE_BYTES)
    engine.library.pcre2_get_error_message_8(code, text, MESSAGE_BYTES)
    return text.value.decode("ascii", "replace")
