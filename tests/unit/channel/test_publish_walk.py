"""Length of a publish's walk: a reader who follows one from the socket to its confirm opens no more files than this."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tools.walk_publish import summary, walk_publish

FILES_MAX = 21
RETURNS_MAX = 12
"""Files of the broker package. The store's work is a commit for many publishes.

Four of them are not the message's: the wait for all sockets, the acknowledgement of input (decisions 64 and 70), the
connection's counters of bytes, and how quick the disk is.
"""


@pytest.mark.pure_core("it follows Python's calls")
def test_a_plain_publish_passes_few_files(tmp_path: Path) -> None:
    calls = [call for call in trio.run(walk_publish, tmp_path / "messages") if call.file.startswith("broker/")]
    found = summary(calls)
    assert found.files <= FILES_MAX
    assert found.returns <= RETURNS_MAX
    assert [call.function for call in calls if call.function.endswith(".publish")] == ["ClassicQueue.publish"]
