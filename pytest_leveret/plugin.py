"""The plugin: a broker for the session, reset for each test, or one for a single test, and connections to it.

docs/testing-applications.md shows how it is used. Nothing is loaded before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from leveret.testing import Broker
    from pytest_leveret.rehearsed_tests import RehearsedTests

SETTINGS, POWER_FAILURES = "leveret_settings", "leveret_power_failures"
REHEARSAL, RESULTS = "leveret-rehearsal", "LEVERET_TEST_RESULTS"
"""The name of the rehearsal's hooks; the variable with the file into which results of tests are written."""
BROKERS = pytest.StashKey[list["Broker"]]()
"""The brokers that a test uses."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options: settings of the session's broker, personalities with each of which tests run."""
    group = parser.getgroup("leveret")
    group.addoption("--leveret-personalities", default="", help="run tests with each of these: 3.13,4.3")
    group.addoption("--leveret-report", default="", help="file for the report on them: .json, .html or text")
    parser.addini(SETTINGS, "settings of Leveret's session broker: lines of its configuration file", "linelist")
    parser.addini(POWER_FAILURES, "the power of Leveret's session broker may fail", "bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Load the rehearsal, if it is asked for."""
    personalities, results = config.getoption("leveret_personalities"), os.environ.get(RESULTS, "")
    if personalities or results:
        from pytest_leveret.rehearsed_tests import RehearsedTests

        names = [name.strip() for name in personalities.split(",") if name.strip()]
        config.pluginmanager.register(RehearsedTests(names, results, config.getoption("leveret_report")), REHEARSAL)


@pytest.fixture(scope="session")
def leveret_personality(request: pytest.FixtureRequest) -> str:
    """The personality with which a test runs; empty: that of the settings."""
    return str(getattr(request, "param", ""))


@pytest.fixture(scope="session")
def leveret_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, leveret_personality: str
) -> Iterator[Broker]:
    """One broker for the whole test run, or for each worker of it; for fixtures of a wider scope than a test."""
    from leveret.testing import Broker

    settings = "\n".join(request.config.getini(SETTINGS))
    directory = tmp_path_factory.mktemp("leveret")
    fails, rehearsed = request.config.getini(POWER_FAILURES), _rehearsed(request)
    variables = _variables(rehearsed, leveret_personality)
    with Broker(directory, settings=settings, power_failures=fails, variables=variables) as broker:
        yield broker
        if rehearsed is not None:
            rehearsed.note(leveret_personality, broker, messages=False)


@pytest.fixture
def leveret(request: pytest.FixtureRequest, leveret_process: Broker, leveret_personality: str) -> Iterator[Broker]:
    """The session's broker, running and empty."""
    _brokers_of(request).append(leveret_process)
    leveret_process.fresh()
    yield leveret_process
    rehearsed = _rehearsed(request)
    if rehearsed is not None:
        rehearsed.note(leveret_personality, leveret_process, findings=False)


@pytest.fixture
def new_leveret(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, leveret_personality: str
) -> Iterator[Callable[..., Broker]]:
    """Start another broker for this test: `new_leveret(settings="...", power_failures=True)`."""
    from leveret.testing import Broker

    started: list[Broker] = []
    rehearsed = _rehearsed(request)

    def start(**options: Any) -> Broker:
        given = {"variables": _variables(rehearsed, leveret_personality), **options}
        broker = Broker(tmp_path_factory.mktemp("leveret"), **given)
        started.append(broker)
        _brokers_of(request).append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        if rehearsed is not None:
            rehearsed.note(leveret_personality, broker)
        broker.close()


@pytest.fixture
def own_leveret(new_leveret: Callable[..., Broker]) -> Broker:
    """A broker that no other test has."""
    return new_leveret()


@pytest.fixture
def leveret_url(leveret: Broker) -> str:
    """The URL of the session's broker, empty: `amqp://guest:guest@127.0.0.1:41235`."""
    return leveret.url


@pytest.fixture
def leveret_connection(leveret: Broker) -> Iterator[Any]:
    """A pika.BlockingConnection to the session's broker."""
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    yield connection
    try:
        connection.close()
    except pika.exceptions.AMQPError:
        pass  # the test has ended it, or its broker


@pytest.fixture
def leveret_aio_connection(leveret: Broker) -> AbstractAsyncContextManager[Any]:
    """An aio_pika connection to the session's broker: `async with leveret_aio_connection as connection:`."""
    aio_pika = pytest.importorskip("aio_pika")

    @asynccontextmanager
    async def connected() -> AsyncIterator[Any]:
        async with await aio_pika.connect(leveret.url) as connection:
            yield connection

    return connected()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the reports of a failed test's brokers."""
    outcome = yield
    result: pytest.TestReport = outcome.get_result()
    brokers = _brokers(item)
    if result.failed and brokers:
        from leveret.testing.failure_report import sections

        result.sections += [section for broker in brokers for section in sections(broker)]


def _rehearsed(request: pytest.FixtureRequest) -> RehearsedTests | None:
    """Return the rehearsal that multiplies tests, if there is one."""
    found: RehearsedTests | None = request.config.pluginmanager.get_plugin(REHEARSAL)
    return found if found is not None and found.personalities else None


def _variables(rehearsed: RehearsedTests | None, personality: str) -> dict[str, str]:
    """Return the environment of a broker."""
    if rehearsed is None or not personality:
        return {}
    return {"LEVERET_PERSONALITY": personality, "LEVERET_REHEARSAL_WATCH": rehearsed.watch}


def _brokers_of(request: pytest.FixtureRequest) -> list[Broker]:
    brokers: list[Broker] = request.node.stash.setdefault(BROKERS, [])
    return brokers


def _brokers(item: pytest.Item) -> list[Broker]:
    """Return the brokers of a test: those of fixtures, and that of a unittest.TestCase."""
    found: list[Broker] = item.stash.setdefault(BROKERS, [])
    used: Any = getattr(getattr(item, "instance", None), "leveret", None)
    return [*found, used] if hasattr(used, "log_of_test") else found
