"""Definitions from a URL: what is asked, what is refused, and that no password is ever shown."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from broker.admin.definitions.definitions_url import ANSWER_BYTES_MAX, read_url
from broker.admin.protocol import AdministrationError
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority

DEFINITIONS = json.dumps({"queues": [{"name": "copied", "vhost": "/"}]}).encode()
BODIES = {"/large": bytes(ANSWER_BYTES_MAX + 1), "/torn": b"{"}
REFUSED = {
    "/moved": "answered 302 Found: redirects are not followed",
    "/torn": "is not JSON: ",
    "/large": f"answers more than {ANSWER_BYTES_MAX} bytes",
    "/slow": "has not answered in full within 0.2 s",
    "/\x7f": "cannot be read: ",
}


class Answers(BaseHTTPRequestHandler):
    """Answers as the path says, to one user."""

    def do_GET(self) -> None:
        if b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")) != b"us er:p@ss":
            self.send_error(401)
        elif self.path == "/slow":
            self.rfile.read(1)  # until the client goes
        else:
            self.send_response(302 if self.path == "/moved" else 200)
            self.end_headers()
            self.wfile.write(BODIES.get(self.path, DEFINITIONS))

    def log_message(self, format: str, *args: object) -> None:
        """Tests are silent."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server; where it is, with user and password, without the scheme."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        yield f"us%20er:p%40ss@127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_an_answer_is_read_or_refused(tmp_path: Path) -> None:
    (tmp_path / "some definitions.json").write_bytes(DEFINITIONS)
    said = {url: " and a host, got " + url for url in ("ftp://h/x", "http:///x", "http://h:port/x", "http://h:0/x")}
    said["http://u:secret@:1/x"] = " and a host, got something else"
    with serving() as where:
        for url in (f"http://{where}/api/definitions?x=1", f"file://{tmp_path}/some%20definitions.json"):
            assert [queue.name for queue in (await read_url(url)).queues] == ["copied"]
        shown = where.partition("@")[2]
        said |= {f"http://{where}{path}": f"http://{shown}{path}: {why}" for path, why in REFUSED.items()}
        for url, text in said.items():
            with pytest.raises(AdministrationError) as caught:
                await read_url(url, 0.2 if url.endswith("/slow") else 20.0)
            assert text in str(caught.value)


async def test_a_certificate_is_checked(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate_file, authority.key_file)
    with serving(context) as where:
        with pytest.raises(AdministrationError, match="certificate verify failed"):
            await read_url(f"https://{where}/")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
        assert len(list((await read_url(f"https://{where}/")).queues)) == 1


def test_a_broker_begins_with_definitions_of_another(tmp_path: Path) -> None:
    with serving() as where:
        process = BrokerProcess(tmp_path / "data", "--definitions", f"http://{where}/api/definitions")
        process.start()
        assert [row["name"] for row in process.tell("list_queues", vhost="/")] == ["copied"]
        assert process.stop() == 0
        process.options = ("--definitions", f"http://{where.replace('p%40ss', 'secret')}/")
        assert not process.try_to_start()
        assert process.wait() == 1
    assert process.log().endswith("401 Unauthorized: expected the user and password of an administrator in the URL\n")
    assert not any(secret in process.log() for secret in ("p@ss", "p%40ss", "secret"))
