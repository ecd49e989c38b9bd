"""Each request of the tables is answered as RabbitMQ answers it, or as Leveret does on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.brokers.rabbitmq_reference import REFERENCE
from tests.conformance.http.request_table import Request, Send, differences, sections

TABLES = sorted(Path(__file__).parent.glob("*.requests"))
SECTIONS = {
    f"{file.stem}: {title}": requests
    for file in TABLES
    for title, requests in sections(file.read_text(encoding="utf-8")).items()
}


@pytest.mark.parametrize("requests", SECTIONS.values(), ids=SECTIONS.keys())
def test_requests_are_answered(requests: list[Request], send: Send) -> None:
    wrong = differences(requests, send, reference=bool(REFERENCE))
    assert not wrong, "\n".join(wrong)
