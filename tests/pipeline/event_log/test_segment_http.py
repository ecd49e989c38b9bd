"""Segments by HTTP as the Spark source and the export read them: whole and right, or a failure in words."""

from __future__ import annotations

import pickle
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import web_address, web_broker, write_segments
from harness.clients.wire_client import Address
from leveret_events.segment_names import SegmentName
from leveret_spark.events.sealed_segments import SegmentDirectory, Segments, segments_of
from leveret_spark.events.segment_http import SegmentHttp
from leveret_spark.option_errors import HttpError, OptionError
from leveret_spark.options import Given
from pipeline.event_parts import parts_of
from pipeline.export import begin
from tests.pipeline.inputs.command import leveret
from tests.unit.http.test_http_server import noise

pytestmark = pytest.mark.slow

LARGE = 3 << 20
SECRET = "hunter2hunter2"


class Site:
    """A broker that serves some segments, and the segments."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.directory = directory / "events"
        write_segments(self.directory, "one", 1, 2, 1)
        write_segments(self.directory, "one", 2, 3)
        write_segments(self.directory, "two", 1, 1, filling=noise(LARGE))
        self.broker = web_broker(directory, tls=authority.config(listen=()))
        self.broker.start()
        self.here = SegmentDirectory(self.directory)
        self.broker.tell("add_user", name="reader", password=SECRET, tags=["monitoring"])

    @property
    def url(self) -> str:
        host, port = web_address(self.broker)
        return f"http://{host}:{port}"

    @property
    def secured(self) -> str:
        return f"https://localhost:{web_address(self.broker, 'https')[1]}"

    def segments(self, **options: str) -> Segments:
        return segments_of(Given({"url": self.url, "reconnectSeconds": "0", **options}))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), authority)
    yield site
    assert SECRET not in site.broker.log()
    assert site.broker.stop() == 0


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


def test_they_are_those_of_the_directory(site: Site) -> None:
    remote = site.segments()
    names = site.here.names()
    assert remote.names() == names
    assert [remote.size(name) for name in names] == [site.here.size(name) for name in names]
    assert [remote.read(name) for name in names] == [site.here.read(name) for name in names]
    assert site.segments().size(names[0]) == site.here.size(names[0]), "without a list before"


def test_a_segment_comes_once_for_all_of_its_parts(tmp_path: Path, authority: Authority) -> None:
    """Also for another look at the same place, as each task of Spark has one."""
    site = Site(tmp_path, authority)
    parts = [part for part in parts_of(site.url, {"reconnectSeconds": "0"}, most=1) if part.name.node == "one"][:2]
    first, second = pickle.loads(pickle.dumps(parts))
    (batch,) = first.batches(["seq"], [])
    assert batch.column("seq").to_pylist() == [1]
    assert site.broker.stop() == 0
    (batch,) = pickle.loads(pickle.dumps(second)).batches(["seq"], [])
    assert batch.column("seq").to_pylist() == [2]


def test_names_behind_what_is_known_in_lists_of_any_length(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret_spark.events.segment_http.LISTED", 1)
    names = site.here.names()
    for known in ({}, {"one": str(names[0])}, {"one": str(names[2]), "two": str(names[3])}):
        assert site.segments().names(known) == site.here.names(known)


def test_a_segment_that_has_gone_is_named(site: Site) -> None:
    gone = SegmentName("one", 9, 1, 2)
    for look in (site.segments().read, site.segments().size):
        with pytest.raises(FileNotFoundError, match=f"segment {gone} is not there; the broker removes the oldest"):
            look(gone)


def test_users_and_passwords(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    for access in ({"password": SECRET}, {"passwordFile": str(file)}):
        sent = pickle.dumps(site.segments(user="reader", **access))  # as to Spark's executors
        assert pickle.loads(sent).names() == site.here.names()
    for user, password in (("reader", "wrong"), ("nobody", SECRET)):
        with pytest.raises(HttpError) as raised:
            site.segments(user=user, password=password, reconnectSeconds="600").names()
        assert str(raised.value) == f"{site.url}: 401 Login failed"
    site.broker.tell("set_user_tags", name="reader", tags=["management"])
    with pytest.raises(HttpError, match="401 Not monitor user"):
        site.segments(user="reader", password=SECRET).names()
    site.broker.tell("set_user_tags", name="reader", tags=["monitoring"])


def test_by_tls(site: Site, authority: Authority) -> None:
    remote, names = site.segments(url=site.secured, tlsCaFile=str(authority.ca_file)), site.here.names()
    assert remote.names() == names
    assert remote.read(names[-1]) == site.here.read(names[-1])


@pytest.mark.parametrize(
    ("place", "options", "complaint"),
    [
        ("{secured}", {}, "unable to get local issuer certificate"),
        ("{secured}", {"tlsCaFile": "/dev/null"}, "the files of options tlsCaFile"),
        ("https://{address}", {}, "https://{address}: the port does not speak TLS"),
        ("{url}/elsewhere", {}, "404 Not Found"),
        ("http://{amqp}", {"reconnectSeconds": "0"}, "BadStatusLine|Connection reset"),
        ("http://{nobody}", {"reconnectSeconds": "1"}, "http://{nobody}: Connection refused"),
        ("{url}", {"passwordFile": "/none"}, "option passwordFile: No such file or directory: /none"),
    ],
)
def test_an_address_that_does_not_serve_segments(
    site: Site, nobody: str, place: str, options: dict[str, str], complaint: str
) -> None:
    """An error that no patience can cure is reported at once."""
    amqp, address = (":".join(map(str, one)) for one in (site.broker.address, web_address(site.broker)))
    places = {"url": site.url, "secured": site.secured, "address": address, "amqp": amqp, "nobody": nobody}
    with pytest.raises((HttpError, OptionError), match=complaint.format(**places)):
        site.segments(**{"url": place.format(**places), "reconnectSeconds": "600", **options}).names()


# Broken off


class Relay:
    """Stands between reader and broker. For each connection `spoil` says what becomes of the bytes of the answer."""

    def __init__(self, upstream: Address, spoil: Callable[[int, bytes], bytes | None]) -> None:
        self.requests: list[bytes] = []
        self._upstream = upstream
        self._spoil = spoil
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                try:
                    with socket.create_connection(self._upstream) as broker:
                        self._carry(client, broker)
                except OSError:
                    pass  # whoever is there sees the end

    def _carry(self, client: socket.socket, broker: socket.socket) -> None:
        number, carried = len(self.requests), 0
        self.requests.append(client.recv(65536))
        broker.sendall(self.requests[-1])
        while True:
            ready, _, _ = select.select([client, broker], [], [])
            data = broker.recv(65536) if broker in ready else b""
            if not data:
                return
            carried += len(data)
            spoilt = self._spoil(number, data) if carried > 1 << 20 else data
            if spoilt is None:
                return
            client.sendall(spoilt)


@pytest.fixture
def relay(site: Site) -> Iterator[Callable[..., Relay]]:
    relays: list[Relay] = []

    def between(spoil: Callable[[int, bytes], bytes | None]) -> Relay:
        relays.append(Relay(web_address(site.broker), spoil))
        return relays[-1]

    yield between
    for each in relays:
        each.close()


def test_a_download_that_breaks_off_goes_on_where_it_was(site: Site, relay: Callable[..., Relay]) -> None:
    between = relay(lambda number, data: data if number == 2 else None)
    name = site.here.names()[-1]
    assert site.segments(url=between.url, reconnectSeconds="60").read(name) == site.here.read(name)
    assert len(between.requests) == 3
    assert b"Range: bytes=" not in between.requests[0]
    starts = [int(each.split(b"Range: bytes=")[1].split(b"-")[0]) for each in between.requests[1:]]
    assert starts == sorted(starts)
    assert starts[0] > 1 << 19


def test_what_is_damaged_on_the_way_is_fetched_again(site: Site, relay: Callable[..., Relay]) -> None:
    name = site.here.names()[-1]
    once = relay(lambda number, data: data if number else bytes(len(data)))
    assert site.segments(url=once.url, reconnectSeconds="60").read(name) == site.here.read(name)
    assert len(once.requests) == 2
    always = relay(lambda number, data: bytes(len(data)))
    with pytest.raises(HttpError, match="what came is not what its checksum says"):
        site.segments(url=always.url).read(name)


# Options


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "option path is missing: the directory of the event log; or url"),
        ({"path": "/x", "url": "http://b"}, "options path and url exclude each other"),
        ({"url": "ftp://b"}, "option url is of the form http://host:port"),
        ({"url": "broker:15672"}, "option url is of the form http://host:port"),
        ({"url": "http://b:x"}, "option url cannot be read"),
        ({"url": "http://"}, "option url is of the form"),
        ({"url": "http://b/?q"}, "option url is of the form"),
        ({"url": f"http://me:{SECRET}@b"}, "option url must not contain user and password"),
        ({"path": f"http://me:{SECRET}@b"}, "option url must not contain user and password"),
        ({"url": "http://b", "password": SECRET, "passwordFile": "/x"}, "options password and passwordFile exclude"),
        ({"url": "http://b", "readTimeoutSeconds": "0"}, "option readTimeoutSeconds is a number from 1 to 3600"),
        ({"path": "/x", "user": "me"}, "option user is for segments by HTTP"),
        ({"url": "https://b", "tlsCertFile": "x"}, "options tlsCertFile and tlsKeyFile go together"),
    ],
)
def test_options_that_mean_nothing(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError) as raised:
        segments_of(Given(options))
    assert complaint in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_place_is_shown_without_its_password() -> None:
    remote = segments_of(Given({"path": "https://b/log/", "user": "me", "password": SECRET}))
    assert isinstance(remote, SegmentHttp)
    assert str(remote._web) == "https://b:443/log"
    assert SECRET not in repr(remote._web)


# The export


def test_an_export_by_http(site: Site, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "password"
    file.write_text(SECRET)
    command = ("export", "events", "--from", site.url, "--to", out, "--user", "reader")
    assert leveret(*command, LEVERET_PASSWORD=SECRET) == (0, f"7 events in 4 new files in {out}\n", "")
    assert sum(pq.read_metadata(file).num_rows for file in out.glob("*.parquet")) == 7
    nothing_new = f"0 events in 0 new files in {out}\n"
    assert leveret(*command, "--password-file", file).output == nothing_new
    assert leveret(*command, said=f"{SECRET}\n", LEVERET_PASSWORD=None).output.endswith(nothing_new), "it is asked for"
    refused = leveret(*command, said="wrong\n", LEVERET_PASSWORD=None)
    assert (refused.code, refused.errors) == (1, f"leveret: error: {site.url}: 401 Login failed\n")


def test_an_export_that_finds_nobody_says_so_at_once_and_leaves_nothing(tmp_path: Path, nobody: str) -> None:
    with pytest.raises(HttpError, match=f"http://{nobody}: Connection refused"):
        begin(f"http://{nobody}", str(tmp_path / "out"), {})
    assert not (tmp_path / "out").exists()
