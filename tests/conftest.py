"""Brokers and clients for the tests that speak the protocol.

With LEVERET_REFERENCE=host:port in the environment the shared broker is that one: so the same tests run against a real
RabbitMQ and prove that what they expect is what RabbitMQ does.
"""

from __future__ import annotations

import gc
import os
import re
import secrets
import shutil
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from broker.server.start.start_line import CORE
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.wire_client import Address, Client

# No test asserts a time: how long an example takes depends on what else the machine does.
settings.register_profile("leveret", deadline=None)
settings.load_profile("leveret")

LONGEST = "test_rows.py"
"""The file that takes longest, but for Spark's: it runs all that the bench measures."""

SPARK = "spark: SparkSession"
"""Text by which the tests of a file ask for Spark, which starts once in each test process."""


@cache
def needs_spark(file: Path) -> bool:
    """True if a file has tests that need Spark."""
    return SPARK in file.read_text(encoding="utf-8")


ALL_SLOW = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.slow\b", re.MULTILINE)
"""Line that makes every test of a file slow."""


FAST = "not slow"
"""Marker expression of `make check`."""
MEMORY = Path("/dev/shm")
"""A file system without a disk."""
MEMORY_BYTES_MIN = 4 << 30


def pytest_configure() -> None:
    """Give tests temporary files in memory, where a sync takes no time; those of `tests/durability` are on the disk."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN:
        os.environ.setdefault("TMPDIR_ON_DISK", tempfile.gettempdir())
        os.environ.setdefault("TMPDIR", str(MEMORY))
        tempfile.tempdir = None  # pytest has asked for it before


def pytest_collection_finish() -> None:
    """Keep the garbage collector out of what was imported: looking through it took a tenth of the time."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without slow tests, leave out the files that have no other: Spark and client libraries take long to import."""
    if config.option.markexpr != FAST or collection_path.suffix != ".py":
        return None
    return True if ALL_SLOW.search(collection_path.read_text(encoding="utf-8")) else None


UMASK = os.umask(0o022)
"""The mask of this process's new files at its beginning."""
os.umask(UMASK)


ON_LINUX = hasattr(os, "posix_fallocate")
"""False on macOS, and with its stand-in, `harness/portable`."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """On a compiled core leave out the tests that look into a pure one, or put something in the place of its code; and
    on other systems, or without what they lack, those of Linux. A command that ran in this process left its umask."""
    os.umask(UMASK)
    marker = item.get_closest_marker("pure_core")
    if marker is not None and CORE == "compiled":
        pytest.skip(f"for the pure core: {marker.args[0]}")
    marker = item.get_closest_marker("linux_only")
    if marker is not None and not ON_LINUX:
        pytest.skip(f"for Linux: {marker.args[0]}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` give all files that need Spark to one test process: it starts once for them."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        """A file at a time to each process, and Spark's as if they were one."""

        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return SPARK if needs_spark(config.rootpath / file) else file

    return Files(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have what takes long come first, Spark before all: so in the end no test process waits long for the others."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not needs_spark(item.path), item.path.name != LONGEST, item.path not in slow))


@pytest.fixture(scope="module", autouse=True)
def _own_garbage() -> Iterator[None]:
    """Collect garbage when all else of a file is gone: what it has left open is said of it, and not of another file's
    test, which may be the one that runs when Python collects by itself."""
    yield
    gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect in silence what a test that has failed left open: it has had its say, and no other test is to fail for
    that."""
    before = item.session.testsfailed
    done = yield
    if item.session.testsfailed > before:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):  # its frames, kept for a debugger
            vars(sys).pop(name, None)
        with warnings.catch_warnings(action="ignore"):
            gc.collect()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have nothing in a report that cannot go from one test process to another: names on the wire are any bytes."""
    report = yield
    report.sections = [(title, _printable(text)) for title, text in report.sections]
    text = str(report.longrepr)
    if text != _printable(text):
        report.longrepr = _printable(text)
    return report


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.fixture(scope="session")
def shared_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that need none of their own."""
    process = BrokerProcess(tmp_path_factory.mktemp("shared") / "data")
    process.start()
    yield process
    if process.running:
        process.stop()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Address:
    """The address of the shared broker. Tests use names of their own in it (see `name`)."""
    if REFERENCE:
        host, _, port = REFERENCE.rpartition(":")
        return host, int(port)
    process: BrokerProcess = request.getfixturevalue("shared_process")
    if not process.running:  # an earlier test brought it down, and has failed for it
        process.start()
    return process.address


@pytest.fixture
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for one test, which may stop, kill and restart it."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    process.start()
    yield process
    if process.running:
        process.kill()


@pytest.fixture(scope="module")
def idle() -> Iterator[dict[Address, list[Client]]]:
    """Connections without channels by broker, which a test has left to the next one of its file."""
    clients: dict[Address, list[Client]] = defaultdict(list)
    yield clients
    for client in chain.from_iterable(clients.values()):
        client.close()


@pytest.fixture
def connect(broker: Address, idle: dict[Address, list[Client]]) -> Iterator[Callable[..., Client]]:
    """A function that hands out connections to the shared broker, new ones where a login is asked for.

    At the end all their channels are closed. A connection that has nothing of its own goes to the file's next test.
    """
    own: list[Client] = []
    clients: list[Client] = []

    def connected(*, channels: Iterable[int] = (1,), **login: Any) -> Client:
        taken = own if login else clients
        taken.append(Client.connect(broker, channels=(), **login) if login or not idle[broker] else idle[broker].pop())
        for channel in channels:
            taken[-1].open_channel(channel)
        return taken[-1]

    yield connected
    for client in clients:
        if client.leave_channels():
            idle[broker].append(client)
        else:
            client.close()
    for client in own:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """A connection to the shared broker with channel 1 open."""
    return connect()


@pytest.fixture
def raw(broker: Address) -> Iterator[Client]:
    """A socket to the shared broker over which nothing has been said."""
    client = Client(broker)
    yield client
    client.close()


@pytest.fixture
def name() -> Callable[..., str]:
    """A function that makes names no other test has."""
    return lambda prefix="q": f"{prefix}-{secrets.token_hex(4)}"
