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

QUEUES = {"queues": [{"name": "copied", "vhost": "/"}]}


class Answers(BaseHTTPRequestHandler):
    """Answers as the path says."""

    timeout = 20

    def do_GET(self) -> None:
        kind, _, login = self.headers.get("Authorization", "").partition(" ")
        if (kind, b64decode(login)) != ("Basic", b"us er:p@ss"):
            self.send_error(401)
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/api/definitions")
            self.end_headers()
        elif self.path == "/slow":
            self.rfile.read(1)  # until the client goes
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self._body())

    def _body(self) -> bytes:
        if self.path == "/large":
            return bytes(ANSWER_BYTES_MAX + 1)
        return b"{" if self.path == "/torn" else json.dumps(QUEUES).encode()

    def log_message(self, format: str, *args: object) -> None:
        """Tests are silent."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server; where it is, without the scheme."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """A server without TLS."""
    with serving() as where:
        yield where


async def test_an_answer_is_read_as_a_file_is(place: str, tmp_path: Path) -> None:
    file = tmp_path / "some definitions.json"
    file.write_text(json.dumps(QUEUES))
    for url in (f"http://us%20er:p%40ss@{place}/api/definitions?x=1", f"file://{tmp_path}/some%20definitions.json"):
        assert [queue.name for queue in (await read_url(url)).queues] == ["copied"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/moved", "answered 302 Found: redirects are not followed"),
        ("/torn", "is not JSON: "),
        ("/large", f"answers more than {ANSWER_BYTES_MAX} bytes"),
        ("/slow", "has not answered in full within 0.2 s"),
        ("/\x7f", "cannot be read: "),
    ],
)
async def test_what_is_no_definitions_file_is_refused(place: str, path: str, said: str) -> None:
    with pytest.raises(AdministrationError) as caught:
        await read_url(f"http://us er:p%40ss@{place}{path}", 0.2 if path == "/slow" else 20.0)
    assert str(caught.value).startswith(f"http://{place}{path}: {said}")


@pytest.mark.parametrize("url", ["ftp://h/x", "http:///x", "http://h:port/x", "http://h:0/x", "http://u:secret@:1/x"])
async def test_only_some_urls_are_taken(url: str) -> None:
    shown = "something else" if "secret" in url else url
    with pytest.raises(AdministrationError, match=f"expected a file, or a URL with .*, got {shown}$"):
        await read_url(url)


async def test_a_certificate_is_checked(authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate_file, authority.key_file)
    with serving(context) as where:
        with pytest.raises(AdministrationError, match="certificate verify failed"):
            await read_url(f"https://us er:p%40ss@{where}/")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
        assert len((await read_url(f"https://us er:p%40ss@{where}/")).queues) == 1


def test_a_broker_begins_with_definitions_of_another(place: str, tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", "--definitions", f"http://us er:p%40ss@{place}/api/definitions")
    process.start()
    assert [row["name"] for row in process.tell("list_queues", vhost="/")] == ["copied"]
    assert process.stop() == 0
    process.options = ("--definitions", f"http://us er:secret@{place}/api/definitions")
    assert not process.try_to_start()
    assert process.wait() == 1
    assert process.log().endswith(
        "answered 401 Unauthorized: expected the user and password of an administrator in the URL\n"
    )
    assert not {"p@ss", "p%40ss", "secret"} & set(process.log().replace(":", " ").replace("@", " ").split())
