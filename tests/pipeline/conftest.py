"""Queues by a client library, and one Spark for all tests of a process that need it.

These tests can be pointed at RabbitMQ as those of the protocol can (see tests/conftest.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.brokers.http_broker import web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE, REFERENCE_HTTP
from harness.clients.wire_client import Address
from harness.project import ROOT
from tests.pipeline.inputs.queue_client import Desk, WebDesk, desk_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_FOR_TESTS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
)
"""Starts sooner, and would be slower in the long run.

With its first compiler alone Java keeps 48 MB of compiled code, which Spark fills, and then compiles again and again;
and it collects all garbage whenever there are more classes than it had thought.
"""

SETTINGS_FOR_TESTS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a few rows: to compile a query takes longer than to interpret it, to plan it again longer than to run it."""


@pytest.fixture
def desk(broker: Address) -> Iterator[Desk]:
    with desk_at(broker) as desk:
        yield desk


@pytest.fixture
def queue(desk: Desk, name: Callable[..., str]) -> Iterator[Callable[..., str]]:
    """A function that declares a durable queue that ends with the test."""
    declared: list[str] = []

    def declare(**arguments: Any) -> str:
        declared.append(name("spark"))
        desk.channel.queue_declare(declared[-1], durable=True, arguments=arguments)
        return declared[-1]

    yield declare
    for each in declared:
        desk.channel.queue_delete(each)


@pytest.fixture
def web_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WebDesk]:
    """A desk at a broker with a management API, and its URL."""
    if REFERENCE:
        if not REFERENCE_HTTP:
            pytest.skip("LEVERET_REFERENCE_HTTP does not say where RabbitMQ's API is")
        yield WebDesk(request.getfixturevalue("desk"), f"http://{REFERENCE_HTTP}")
        return
    process = web_broker(tmp_path)
    process.start()
    try:
        host, port = web_address(process)
        with desk_at(process.address) as desk:
            yield WebDesk(desk, f"http://{host}:{port}")
    finally:
        process.kill()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The package must be installed where Spark's workers run; here it is found by its path."""
    from pipeline.spark.spark_session import session

    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with session("leveret tests", java_options=JAVA_FOR_TESTS, settings=SETTINGS_FOR_TESTS) as started:
        yield started
