"""The HTTP API, the page, metrics and probes of a standby: what is asked is answered, what would change is refused."""

from __future__ import annotations

import json
import re
from importlib import import_module

import trio

from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.server.http.asgi_exchange import Application, Message, Receive, Send
from broker.server.http.http_services import METRICS
from broker.server.http.probes import probed
from broker.server.http.web_sites import WebSites
from broker.server.standby.standby_view import StandbyView

READS = frozenset({"GET", "HEAD", "OPTIONS"})
CHANGING_READS = re.compile("/api/(aliveness-test/|shovels/vhost/[^/]*/[^/]*/restart)")
"""Paths for which RabbitMQ publishes a message, or restarts something, though the method is GET."""


class StandbyHttp:
    """Both applications, and their sites, as `HttpServices` has them of a broker."""

    def __init__(self, config: Config, view: StandbyView, read_only: str, nursery: trio.Nursery) -> None:
        self._config = config
        self._view = view
        self._read_only = read_only
        scraped = probed(lambda: read_only, str, self._answer_scrape)
        self.sites = WebSites(config, self._answer, scraped, nursery)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] not in READS or CHANGING_READS.search(scope["path"]):
            await _refuse(send, self._read_only)
            return
        try:
            async with self._view.looking() as look:
                await look.application(scope, receive, send)
        except AdministrationError as error:
            await _refuse(send, str(error))

    async def _answer_scrape(self, scope: Message, receive: Receive, send: Send) -> None:
        await trio.to_thread.run_sync(import_module, METRICS)
        from broker.management.prometheus.metrics_application import MetricsApplication
        from broker.management.prometheus.registries import Registries

        try:
            async with self._view.looking() as look:
                by_object = self._config.prometheus.return_per_object_metrics
                answer: Application = MetricsApplication(Registries(look.api, per_object_by_default=by_object))
                await answer(scope, receive, send)
        except AdministrationError as error:
            await _refuse(send, str(error))


async def _refuse(send: Send, reason: str) -> None:
    body = json.dumps({"error": "standby", "reason": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
