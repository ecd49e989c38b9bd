"""Measured memory and disk, and the alarms that follow from them."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from broker.config import Config, DiskSettings, MemorySettings, ServerSettings
from broker.entities.scheduling.alarms import DISK, MEMORY, Alarms
from broker.process_memory import memory_used
from broker.server import resource_alarms
from broker.server.engine import Activity
from broker.server.resource_alarms import REUSABLE_BYTES_KEPT, SHRINK_SECONDS, ResourceWatch

MEBIBYTE = 1 << 20
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# Memory


@pytest.mark.parametrize(
    ("memberships", "limits", "total"),
    [
        ("0::/", {"memory.max": "max\n"}, MACHINE),
        ("0::/", {"memory.max": "1048576\n"}, MEBIBYTE),
        ("0::/a.slice/b.service", {"a.slice/b.service/memory.max": "1048576\n"}, MEBIBYTE),
        ("0::/a/b", {"a/memory.max": "1048576\n", "a/b/memory.max": "2097152\n"}, MEBIBYTE),
        ("4:cpu,memory:/x\n0::/", {"memory/x/memory.limit_in_bytes": "1048576\n"}, MEBIBYTE),
        ("4:memory:/not/seen/here", {"memory/memory.limit_in_bytes": "1048576\n"}, MEBIBYTE),
        ("4:memory:/", {"memory/memory.limit_in_bytes": f"{MACHINE * 4}\n"}, MACHINE),  # what the first kind says
        ("0::/", {"memory.max": "nonsense"}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_the_limit_is_a_share_of_what_the_control_groups_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memberships: str, limits: dict[str, str], total: int
) -> None:
    """The group itself and all around it (the kernel's cgroup-v1 and cgroup-v2 documents)."""
    for name, text in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "own"
    own.write_text(memberships)
    monkeypatch.setattr(resource_alarms, "_CGROUPS", tmp_path)
    monkeypatch.setattr(resource_alarms, "_OWN_CGROUPS", own)
    assert resource_alarms.memory_limit(Config(memory=MemorySettings(high_watermark=0.5))) == total // 2


@pytest.mark.linux_only("`ps` is asked once a second")
def test_memory_of_our_own_counts() -> None:
    before = memory_used()
    held = bytearray(os.urandom(64)) * MEBIBYTE
    assert memory_used() - before > len(held) // 2


@pytest.mark.linux_only("elsewhere all resident memory counts, or the footprint")
def test_mapped_files_do_not_count(tmp_path: Path) -> None:
    """The pages of the message store are the kernel's to drop."""
    path = tmp_path / "mapped"
    path.write_bytes(bytes(64 * MEBIBYTE))
    before = memory_used()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[at] for at in range(0, len(mapped), 4096)) == 0
        assert memory_used() - before < 32 * MEBIBYTE


def test_what_publishers_sent_meanwhile_does_not_keep_the_alarm_up(tmp_path: Path, alarms: Alarms) -> None:
    """It waits for the end of the alarm, which must not wait for it, nor for anything else to happen."""
    memory = MemorySettings(high_watermark_bytes=memory_used() // 2, check_interval_seconds=0.001)
    config = Config(server=ServerSettings(data_dir=str(tmp_path)), memory=memory)
    held = 0
    watched = ResourceWatch(config, alarms, Space(), lambda: held)

    async def look() -> None:
        nonlocal held
        raised, ended = trio.Event(), trio.Event()
        alarms.observe(lambda: (raised if alarms.is_raised(MEMORY) else ended).set())
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watched.watch_memory, Activity().pause)
                await raised.wait()
                held = memory_used()
                await ended.wait()
                nursery.cancel_scope.cancel()

    trio.run(look)


@pytest.mark.linux_only("no other system tells the mapped pages")
def test_mapped_files_above_the_limit_are_given_back(tmp_path: Path, alarms: Alarms) -> None:
    """The process's own code is more than a byte."""
    memory = MemorySettings(mapped_bytes_max=1, check_interval_seconds=0.001)
    config, space = Config(server=ServerSettings(data_dir=str(tmp_path)), memory=memory), Space()
    watched = ResourceWatch(config, alarms, space, int)

    async def look() -> None:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watched.watch_memory, trio.sleep)
                await trio.to_thread.run_sync(space.given_back.wait)
                nursery.cancel_scope.cancel()

    trio.run(look)


@pytest.fixture
def nobody_looks_for_cycles() -> Iterator[None]:
    """Python itself does so seldom in a broker."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("nobody_looks_for_cycles")
@pytest.mark.linux_only("`ps` is asked once a second")
def test_garbage_in_cycles_does_not_keep_the_alarm_up(tmp_path: Path, alarms: Alarms) -> None:
    limit = memory_used() + 32 * MEBIBYTE
    memory = MemorySettings(high_watermark_bytes=limit, check_interval_seconds=0.001)
    watched = ResourceWatch(Config(server=ServerSettings(data_dir=str(tmp_path)), memory=memory), alarms, Space(), int)
    cycle: list[object] = [bytearray(os.urandom(64)) * MEBIBYTE]
    cycle.append(cycle)
    del cycle
    watched.check_memory()
    assert alarms.is_raised(MEMORY)

    async def look() -> None:
        ended = trio.Event()
        alarms.observe(lambda: None if alarms.is_raised(MEMORY) else ended.set())
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watched.watch_memory, trio.sleep)
                await ended.wait()
                nursery.cancel_scope.cancel()

    trio.run(look)


# Disk


@pytest.mark.linux_only("no other system tells it by /proc")
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


DISK_FREE = 1 << 40


class Space:
    """A store with `holes` bytes that hold nothing, on a disk of which DISK_FREE are free."""

    def __init__(self, reusable: int = 0) -> None:
        self.reusable = reusable
        self.has_ballast = True
        self.given_back = threading.Event()

    def reusable_bytes(self) -> int:
        return self.reusable

    def disk_free_bytes(self) -> int:
        return DISK_FREE

    def give_mapped_back(self) -> None:
        self.given_back.set()

    def room_bytes(self) -> int:
        return DISK_FREE + self.reusable


@pytest.fixture
def alarms() -> Alarms:
    return Alarms()


def watch(directory: Path, alarms: Alarms, space: Space | None = None, *, limit: int = 0) -> ResourceWatch:
    config = Config(server=ServerSettings(data_dir=str(directory)), disk=DiskSettings(free_limit_bytes=limit))
    return ResourceWatch(config, alarms, space or Space(), lambda: 0)


class Keeper:
    """A committer that has nothing to do."""

    def shrink(self) -> None:
        raise AssertionError("there is no room to give back")

    def restore_ballast(self) -> None:
        raise AssertionError("there is ballast")


def test_room_that_others_make_ends_the_alarm_of_an_idle_broker(tmp_path: Path, alarms: Alarms) -> None:
    space = Space()
    disk = DiskSettings(free_limit_bytes=DISK_FREE + 1, check_interval_seconds=0.001)
    watched = ResourceWatch(Config(server=ServerSettings(data_dir=str(tmp_path)), disk=disk), alarms, space, int)

    async def look() -> None:
        raised, ended = trio.Event(), trio.Event()
        alarms.observe(lambda: (raised if alarms.is_raised(DISK) else ended).set())
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watched.watch_disk, Keeper(), Activity().pause)
                await raised.wait()
                space.reusable = 1
                await ended.wait()
                nursery.cancel_scope.cancel()

    trio.run(look)


def test_what_holds_nothing_in_the_store_is_free(tmp_path: Path, alarms: Alarms) -> None:
    watched = watch(tmp_path, alarms, Space(1 << 60), limit=1 << 60)
    watched.check_disk()
    assert not alarms.raised
    assert watched.should_shrink()  # others cannot use it


def test_the_disk_gets_back_what_the_store_has_not_needed_for_a_while(
    tmp_path: Path, alarms: Alarms, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = REUSABLE_BYTES_KEPT + 1
    now = 0.0
    monkeypatch.setattr(resource_alarms.time, "monotonic", lambda: now)
    space = Space(enough)
    watched = watch(tmp_path, alarms, space)
    shrinks = []
    for periods, space.reusable in ((0.5, enough), (1, enough), (1.5, enough - 1), (2, enough), (3, enough)):
        now = periods * SHRINK_SECONDS
        shrinks.append(watched.should_shrink())
    assert shrinks == [False, True, False, False, True]


def test_observers_hear_of_the_first_and_the_last_shortage(alarms: Alarms) -> None:
    """RabbitMQ: connection.unblocked comes when every alarm has cleared."""
    heard: list[bool] = []
    alarms.observe(lambda: heard.append(alarms.raised))
    for name, short in ((MEMORY, True), (DISK, True), (DISK, True), (MEMORY, False), (DISK, False), (DISK, False)):
        alarms.set(name, short=short)
    assert heard == [True, False]


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


@pytest.mark.linux_only("no other system tells it")
def test_the_age_of_the_process_includes_its_imports() -> None:
    program = "from broker.server import resource_alarms as resources; print(resources.process_age_seconds())"
    assert 0 < float(run(program, 100, 100)) < 60
