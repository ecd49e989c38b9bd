"""A thread that runs asyncio, for a library that knows no other loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar, final

Result = TypeVar("Result")
END_SECONDS = 2.0
"""Time in which the last coroutine may end."""


@final
class AsyncioThread:
    """The thread; it starts with the first call. Any thread may call it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """End the thread, if it runs, behind a last coroutine. Nobody may be waiting for a result."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            last.close()
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(asyncio.wait_for(last, END_SECONDS), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
