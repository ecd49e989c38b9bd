"""How much memory and disk there is, and the alarms that follow from it."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from broker.config import Config, Disk, Memory, Server
from broker.entities.scheduling.alarms import DISK, MEMORY, Alarms
from broker.server import resource_alarms
from broker.server.resource_alarms import ResourceWatch

MEBIBYTE = 1 << 20
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# Memory


def test_a_limit_in_bytes_is_taken_as_it_is() -> None:
    assert (
        resource_alarms.memory_limit(Config(memory=Memory(high_watermark=0.5, high_watermark_bytes=123_456))) == 123_456
    )


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("max\n", MACHINE),  # cgroup 2 without a limit
        ("1048576\n", MEBIBYTE),
        (f"{MACHINE * 4}\n", MACHINE),  # cgroup 1 says a huge number instead
        ("nonsense", MACHINE),
        ("", MACHINE),
    ],
)
def test_the_limit_is_a_share_of_what_the_container_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, total: int
) -> None:
    """Control groups: memory.max is a number or "max" (the kernel's cgroup-v2 document)."""
    limit = tmp_path / "memory.max"
    limit.write_text(text)
    monkeypatch.setattr(resource_alarms, "_CGROUP_LIMITS", (tmp_path / "not there", limit))
    assert resource_alarms.memory_limit(Config(memory=Memory(high_watermark=0.5))) == total // 2


def test_the_smallest_of_several_limits_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (tmp_path / "2", tmp_path / "1")
    for path, size in zip(limits, (3 * MEBIBYTE, 2 * MEBIBYTE), strict=True):
        path.write_text(str(size))
    monkeypatch.setattr(resource_alarms, "_CGROUP_LIMITS", limits)
    assert resource_alarms.memory_limit(Config(memory=Memory(high_watermark=1.0))) == 2 * MEBIBYTE


def test_memory_of_our_own_counts() -> None:
    before = resource_alarms.memory_used()
    held = bytearray(os.urandom(64)) * MEBIBYTE
    assert resource_alarms.memory_used() - before > len(held) // 2


def test_mapped_files_do_not_count(tmp_path: Path) -> None:
    """The pages of the message store are the kernel's to drop."""
    path = tmp_path / "mapped"
    path.write_bytes(bytes(64 * MEBIBYTE))
    before = resource_alarms.memory_used()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[at] for at in range(0, len(mapped), 4096)) == 0
        assert resource_alarms.memory_used() - before < 32 * MEBIBYTE


# Disk


def test_free_space_is_that_of_the_directory(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    assert abs(resource_alarms.disk_free(tmp_path) - status.f_bavail * status.f_frsize) < 512 * MEBIBYTE


def test_the_file_system_of_a_directory() -> None:
    assert resource_alarms.file_system(Path("/proc/self")) == "proc"
    assert resource_alarms.file_system(Path("/")) not in ("", "proc")


def test_the_deepest_mount_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    table = f"/dev/a / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n/dev/b {tmp_path}/da xfs rw 0 0\n"
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *a, **k: table if str(path) == "/proc/self/mounts" else real(path, *a, **k)
    )
    assert resource_alarms.file_system(data) == "nfs4"
    resource_alarms.warn_of_network_file_system(data)
    assert "is on nfs4: use a local disk" in caplog.text


# Alarms


class Ballast:
    """How often it was asked to come back, and whether there is room for it."""

    def __init__(self) -> None:
        self.asked = 0
        self.room = True

    def restore(self) -> bool:
        self.asked += 1
        return self.room


@pytest.fixture
def alarms() -> Alarms:
    return Alarms()


@pytest.fixture
def ballast() -> Ballast:
    return Ballast()


def watch(directory: Path, alarms: Alarms, ballast: Ballast, *, limit: int = 0) -> ResourceWatch:
    config = Config(server=Server(data_dir=str(directory)), disk=Disk(free_limit_bytes=limit))
    return ResourceWatch(config, alarms, ballast.restore)


def test_too_little_free_space_raises_the_alarm(tmp_path: Path, alarms: Alarms, ballast: Ballast) -> None:
    watch(tmp_path, alarms, ballast).check_disk()
    assert not alarms.raised
    watch(tmp_path, alarms, ballast, limit=1 << 60).check_disk()
    assert alarms.is_raised(DISK)
    assert alarms.reason == "low on disk"
    watch(tmp_path, alarms, ballast).check_disk()
    assert not alarms.raised


def test_a_disk_found_full_is_short_whatever_it_says(tmp_path: Path, alarms: Alarms, ballast: Ballast) -> None:
    """A quota, or a limit on files, is full with space free. The ballast comes back when it is over, not before."""
    watched = watch(tmp_path, alarms, ballast)
    watched.disk_full(True)
    assert alarms.is_raised(DISK)
    watched.check_disk()
    assert alarms.is_raised(DISK)
    assert ballast.asked == 0
    watched.disk_full(False)
    assert not alarms.raised
    assert ballast.asked == 1
    watched.check_disk()
    assert ballast.asked == 1


def test_ballast_that_finds_no_room_is_tried_again(tmp_path: Path, alarms: Alarms, ballast: Ballast) -> None:
    watched = watch(tmp_path, alarms, ballast)
    ballast.room = False
    watched.disk_full(True)
    watched.disk_full(False)
    watched.check_disk()
    assert ballast.asked == 2
    ballast.room = True
    watched.check_disk()
    watched.check_disk()
    assert ballast.asked == 3


def test_observers_hear_of_the_first_and_the_last_shortage(alarms: Alarms) -> None:
    """RabbitMQ: connection.unblocked comes when every alarm has cleared."""
    heard: list[bool] = []
    alarms.observe(lambda: heard.append(alarms.raised))
    for name, short in ((MEMORY, True), (DISK, True), (DISK, True), (MEMORY, False), (DISK, False), (DISK, False)):
        alarms.set(name, short=short)
    assert heard == [True, False]


def test_both_reasons_are_given(alarms: Alarms) -> None:
    """3.10.8 on the wire: "low on memory & disk"."""
    alarms.set(DISK, short=True)
    alarms.set(MEMORY, short=True)
    assert alarms.reason == "low on memory & disk"


# The process


def run(program: str, soft: int, hard: int) -> str:
    """The output of a Python program that begins with these limits of open files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, preexec_fn=limit, check=True)
    return done.stdout.strip()


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes() -> None:
    program = (
        "import resource; from broker.server import resource_alarms as resources;"
        "print(resources.raise_open_files_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert run(program, 100, 300) == "300 300 300"
    assert run(program, 200, 200) == "200 200 200"


def test_the_age_of_the_process_includes_its_imports() -> None:
    program = "from broker.server import resource_alarms as resources; print(resources.process_age_seconds())"
    assert 0 < float(run(program, 100, 100)) < 60
