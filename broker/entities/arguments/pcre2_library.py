"""PCRE2, the system's library: patterns compiled once, and searched in bounded steps and memory.

PCRE2's step limit applies to each place of a text at which a match could begin. To make it apply to a whole search, a
pattern is compiled with a prefix that matches any text, and anchored at the first place. Where that would change the
pattern's meaning, the limit is divided by the number of places.

Linux distributions have `libpcre2-8`, because grep, git and SELinux are linked with it; without it, patterns that need
it are refused with the names of its packages. Only one thread may use this at a time.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache

NAMES: tuple[str, ...] = (
    "libpcre2-8.so.0",
    "libpcre2-8.0.dylib",
    "/opt/homebrew/lib/libpcre2-8.0.dylib",
    "/usr/local/lib/libpcre2-8.0.dylib",
    "/opt/local/lib/libpcre2-8.0.dylib",
)
"""The library on Linux; on macOS, where Homebrew and MacPorts have directories that the loader does not search."""
MISSING = "libpcre2-8 is not installed (Debian: libpcre2-8-0; Alpine, Fedora, Arch, Homebrew: pcre2)"
NO_MATCH = -1
MESSAGE_BYTES = 256
ANCHORED = 0x80000000
"""Option: a match must begin at the first place of the text."""
INFO_ALL_OPTIONS, INFO_FIRST_CODE_TYPE, INFO_SIZE = 0, 6, 22
AT_LINES = 2
"""INFO_FIRST_CODE_TYPE of a pattern whose match begins at the start of a line, as one that begins with `.*`."""
SMALL_BYTES = 256
"""Size of a compiled pattern up to which it may use all its steps. The size bounds the time between two steps: some 250
zero-width items, 250 ns. Larger patterns have proportionally fewer steps."""

_BEFORE, _AFTER = b"(?s:.*?)(?:", b")"
_OF_THE_WHOLE = re.compile(rb"\(\*|\(\?(?:R|[+-]?0)|\\g[<'][+-]?0")
"""Verbs, and recursion into the whole pattern: a prefix would change their meaning."""

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
    "pattern_info": (_CODE, _POINTER, _NUMBER, _POINTER),
    "match_data_create": (_POINTER, _NUMBER, _POINTER),
    "match": (_CODE, _POINTER, _TEXT, _SIZE, _SIZE, _NUMBER, _POINTER, _POINTER),
    "get_error_message": (_CODE, _CODE, _TEXT, _SIZE),
}
"""The functions that are called: type of the result, types of the arguments."""


class Pcre2Error(Exception):
    """PCRE2's error in a pattern or a search; `position`: the byte of the pattern."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason)
        self.position = position


class Pcre2:
    """The loaded library, with the match context (limits) and match data (memory) that all searches share."""

    def __init__(self, library: ctypes.CDLL, limits: int, memory: int) -> None:
        self.library = library
        self.limits = limits
        self.memory = memory
        self._steps_max = 0

    def limit(self, steps_max: int) -> None:
        """Limit searches to this number of steps from one place."""
        if steps_max != self._steps_max:
            self.library.pcre2_set_match_limit_8(self.limits, steps_max)
            self._steps_max = steps_max


class Expression:
    """A compiled pattern over bytes."""

    def __init__(self, pattern: bytes, engine: Pcre2) -> None:
        """Raises Pcre2Error."""
        self._engine = engine
        self._code = _compiled(engine, pattern)
        self._from_one_place = bool(self._information(INFO_ALL_OPTIONS, _NUMBER()) & ANCHORED)
        self._from_lines = False
        if not self._from_one_place and _OF_THE_WHOLE.search(pattern) is None:
            self._from_lines = self._information(INFO_FIRST_CODE_TYPE, _NUMBER()) == AT_LINES
            if not self._from_lines:
                self._begin_at_one_place(pattern)
        self._size = self._information(INFO_SIZE, _SIZE())

    def __del__(self) -> None:
        if getattr(self, "_code", 0):
            self._engine.library.pcre2_code_free_8(self._code)

    def search(self, text: bytes, steps_max: int) -> bool:
        """Return whether the pattern is found anywhere. Raises Pcre2Error after `steps_max` steps."""
        engine = self._engine
        if self._size > SMALL_BYTES:
            steps_max = max(1, steps_max * SMALL_BYTES // self._size)
        if not self._from_one_place:
            places = len(text.splitlines()) if self._from_lines else len(text)
            steps_max = max(1, steps_max // (places + 1))
        engine.limit(steps_max)
        found: int = engine.library.pcre2_match_8(self._code, text, len(text), 0, 0, engine.memory, engine.limits)
        if found < NO_MATCH:
            raise Pcre2Error(_message(engine, found))
        return found != NO_MATCH

    def _begin_at_one_place(self, pattern: bytes) -> None:
        """Compile the pattern with the prefix, unless its end would swallow the suffix, as a comment does."""
        try:
            code = _compiled(self._engine, _BEFORE + pattern + _AFTER, ANCHORED)
        except Pcre2Error:
            return
        self._engine.library.pcre2_code_free_8(self._code)
        self._code, self._from_one_place = code, True

    def _information(self, what: int, number: ctypes.c_uint32 | ctypes.c_size_t) -> int:
        self._engine.library.pcre2_pattern_info_8(self._code, what, ctypes.byref(number))
        return number.value


@cache
def pcre2(heap_kibibytes_max: int) -> Pcre2:
    """Load PCRE2, with this limit on the memory of a search. Raises Pcre2Error if it is not installed."""
    library = _library()
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, f"pcre2_{name}_8")
        function.restype, function.argtypes = result, arguments
    limits, memory = library.pcre2_match_context_create_8(None), library.pcre2_match_data_create_8(1, None)
    if not limits or not memory:
        raise MemoryError("PCRE2 was given no memory")
    library.pcre2_set_heap_limit_8(limits, heap_kibibytes_max)
    return Pcre2(library, limits, memory)


def _library() -> ctypes.CDLL:
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Pcre2Error(MISSING)


def _compiled(engine: Pcre2, pattern: bytes, options: int = 0) -> int:
    code, position = _CODE(), _SIZE()
    found: int | None = engine.library.pcre2_compile_8(
        pattern, len(pattern), options, ctypes.byref(code), ctypes.byref(position), None
    )
    if not found:
        raise Pcre2Error(_message(engine, code.value), position.value)
    return found


def _message(engine: Pcre2, code: int) -> str:
    text = ctypes.create_string_buffer(MESSAGE_BYTES)
    engine.library.pcre2_get_error_message_8(code, text, MESSAGE_BYTES)
    return text.value.decode("ascii", "replace")
