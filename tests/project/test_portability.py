"""Files that may use what is Linux's own, or not the same on macOS: each such thing has one place, or says why not. And
what not every Python has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.test_tidy import PACKAGES, shown, sources

FORKED = {"broker/cli/testing/template_process.py"}
RECORDER = {"leveret/testing/power/preload.py", "leveret/testing/power/disk_record.py"}
HOMES = {
    r"/proc\b|/sys/": {
        "broker/admin/node/memory_parts.py",
        "broker/admin/node/process_facts.py",
        "broker/admin/protocol.py",
        "broker/process_memory.py",
        "broker/server/net/listeners.py",
        "broker/server/resource_alarms.py",
        "storage/journal/processor_waits.py",
        "storage/lock_file.py",
        "storage/messages/store_io.py",
        "storage/space/mapped_pages.py",
    },
    r"\bfsync\b|fdatasync|O_DSYNC|O_SYNC|F_FULLFSYNC": {
        "migrations/apply.py",  # for its own tests: the store gives it the function of `synced_files`
        "storage/journal/journal_file.py",
        "storage/space/holes.py",
        "storage/ship/targets/sftp_target.py",  # asks the server for its own
        "storage/synced_files.py",
    },
    r"fallocate": {"storage/space/holes.py", "storage/synced_files.py"},
    r"\bCDLL\(": {
        "broker/admin/node/memory_parts.py",
        "broker/entities/arguments/pcre2_library.py",
        "broker/freed_memory.py",
        "broker/process_memory.py",
        "storage/space/holes.py",
        "storage/space/mapped_pages.py",
    },
    r"\bepoll\b|EPOLL": {"broker/server/net/client_sockets.py", "broker/server/net/replaceable_parts.py"},
    r"TCP_(?!NODELAY)[A-Z]+": {"broker/server/net/listeners.py", "broker/server/net/prompt_acks.py"},
    r"\bimport (?:fcntl|termios)\b": {
        "broker/server/net/transport.py",
        "broker/server/store_copies.py",
        "storage/lock_file.py",
        "storage/messages/lmdb_environment.py",
        "storage/space/holes.py",
        "storage/synced_files.py",
    },
    r"\bos\.fork|recv_fds|send_fds": FORKED | {"leveret/testing/broker_copies.py"},
    r"LD_PRELOAD": RECORDER,
    r"\bimport resource\b": {
        "broker/admin/node/process_facts.py",
        "broker/server/resource_alarms.py",
        "broker/server/server.py",
        "storage/messages/lmdb_environment.py",
    },
    r"ru_maxrss|RssAnon": {"broker/process_memory.py"},
    r"CLOCK_(?!MONOTONIC|REALTIME)[A-Z]+": {"broker/server/resource_alarms.py"},
    r"sys\.platform": {"leveret/testing/broker_copies.py", "leveret/testing/power/preload.py"},
    r"SOCK_CLOEXEC|SOCK_NONBLOCK|SO_PEERCRED|memfd_create|eventfd|pidfd_open|O_TMPFILE|O_PATH|sched_\w+affinity": set(),
}
"""Names that no other file may use. `make test-portable` runs without most of them."""

NOT_CODE = re.compile(r'"""(?:[^"]|"(?!""))*"""|#[^\n]*')


def code(path: Path) -> str:
    """Return a file without its docstrings and comments."""
    return NOT_CODE.sub("", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("what", HOMES)
def test_what_is_linux_s_own_has_one_place(what: str) -> None:
    users = {shown(path) for path in sources(*PACKAGES) if re.search(what, code(path))}
    assert users == HOMES[what]


def test_what_spark_copies_to_its_workers_keeps_no_iterator_of_itertools() -> None:
    """Python 3.14 pickles none: readers of the data sources were refused there."""
    kept = re.compile(r"self\.\w+(?:: [^=\n]+)? = (?:itertools\.)?(?:count|cycle|repeat|chain|islice|accumulate)\(")
    assert [shown(path) for path in sources("leveret_spark") if kept.search(code(path))] == []
