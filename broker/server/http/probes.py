"""Probes beside the metrics, without credentials: /healthz, /healthz/disk and /readyz, as Kubernetes names them.

An answer at all means that the event loop runs. Nothing is computed and nothing loaded for it, so that a probe of a
busy broker is answered within its second.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.server.http.asgi_exchange import Application, Message, Receive, Send

LIVE, READY, DISK = "/healthz", "/readyz", "/healthz/disk"
METHODS = ("GET", "HEAD")


def probed(unready: Callable[[], str], disk_hangs: Callable[[], str], other: Application) -> Application:
    """Return an application that answers probes, and leaves all other requests to `other`.

    `unready` returns the reason why AMQP clients are not accepted, empty while they are; `disk_hangs` the write that
    the disk does not answer, if there is one.
    """
    reasons: dict[str, Callable[[], str]] = {LIVE: str, READY: unready, DISK: disk_hangs}

    async def answered(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] not in reasons:
            await other(scope, receive, send)
            return
        reason = reasons[scope["path"]]()
        status = 405 if scope["method"] not in METHODS else 503 if reason else 200
        body = f"{reason or 'ok'}\n".encode() if status != 405 else b""
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        if status == 405:
            headers.append((b"allow", ", ".join(METHODS).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answered
