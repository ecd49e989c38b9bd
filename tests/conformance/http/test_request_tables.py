"""Each request of the tables is answered as RabbitMQ answers it, or as Leveret does on purpose, by series."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_broker
from harness.brokers.rabbitmq_reference import REFERENCE, REFERENCE_SERIES
from tests.conformance.http.request_table import BASE, Request, Send, differences, sections

TABLES = sorted(Path(__file__).parent.glob("*.requests"))
SECTIONS = {
    f"{file.stem}: {title}": requests
    for file in TABLES
    for title, requests in sections(file.read_text(encoding="utf-8")).items()
}
SETTINGS = {
    BASE: "",
    "4.3": '[identity]\npersonality = "4.3"\n[deprecated_features]\ntransient_nonexcl_queues = "permit"\n',
}
"""Tables of 3.10 hold for 3.13, the default. Transient queues are permitted, as by Debian's package of 4.3.6."""


@pytest.fixture(scope="module", params=[REFERENCE_SERIES] if REFERENCE else list(SETTINGS))
def series(request: pytest.FixtureRequest) -> str:
    """The RabbitMQ whose API is compared with."""
    return str(request.param)


@pytest.fixture(scope="module")
def web_process(series: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of that personality."""
    process = web_broker(tmp_path_factory.mktemp("web"), SETTINGS[series])
    process.start()
    yield process
    process.stop()


@pytest.mark.parametrize("requests", SECTIONS.values(), ids=SECTIONS.keys())
def test_requests_are_answered(requests: list[Request], series: str, send: Send) -> None:
    wrong = differences(requests, send, series, reference=bool(REFERENCE))
    assert not wrong, "\n".join(wrong)
