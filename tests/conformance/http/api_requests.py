"""Requests to the API of a broker process, with JSON both ways."""

from __future__ import annotations

import json
from typing import Any

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import GUEST, Reply, ask, web_address


class Api:
    """The API of a broker."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process

    def request(self, method: str, path: str, body: object = None, user: str | None = GUEST, **headers: str) -> Reply:
        sent = None if body is None else json.dumps(body).encode()
        where = web_address(self.process)
        return ask(
            where, f"/api/{path}", method=method, body=sent, user=user, content_type="application/json", **headers
        )

    def get(self, path: str) -> Any:
        return json.loads(self.request("GET", path).body)
