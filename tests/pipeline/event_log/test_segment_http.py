"""Segments by HTTP as the Spark source and the export read them: whole and right, or a failure in words."""

from __future__ import annotations

import os
import pickle
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from broker.admin import protocol
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import web_address, web_broker, write_segments
from harness.clients.wire_client import Address
from harness.project import ROOT
from harness.waiting import eventually
from leveret_spark.events.event_log_reader import SegmentName
from leveret_spark.events.sealed_segments import SegmentDirectory, Segments, segments_of
from leveret_spark.events.segment_http import SegmentHttp
from leveret_spark.option_errors import HttpError, OptionError
from leveret_spark.options import WEB, Given
from pipeline.export import begin
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
        user = {"name": "reader", "password": SECRET, "tags": ["monitoring"]}
        protocol.ask(self.broker.data_dir, "add_user", user, 10)

    @property
    def url(self) -> str:
        host, port = web_address(self.broker)
        return f"http://{host}:{port}"

    def segments(self, **options: str) -> Segments:
        return segments_of(Given({"url": self.url, "reconnectSeconds": "0", **options}))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), authority)
    yield site
    assert site.broker.stop() == 0


def test_they_are_those_of_the_directory(site: Site) -> None:
    remote = site.segments()
    names = site.here.names()
    assert remote.names() == names
    assert [remote.size(name) for name in names] == [site.here.size(name) for name in names]
    assert site.segments().size(names[0]) == site.here.size(names[0]), "without a list before"
    for name in names:
        assert remote.read(name) == site.here.read(name)


def test_behind_what_is_known(site: Site) -> None:
    names = site.here.names()
    for known in ({}, {"one": str(names[0])}, {"one": str(names[2]), "two": str(names[3])}):
        assert site.segments().names(known) == site.here.names(known)


def test_lists_of_any_length(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret_spark.events.segment_http.LISTED", 1)
    assert site.segments().names() == site.here.names()


def test_a_segment_that_has_gone_is_named(site: Site) -> None:
    gone = SegmentName("one", 9, 1, 2)
    for look in (site.segments().read, site.segments().size):
        with pytest.raises(FileNotFoundError, match=f"segment {gone} is not there; the broker removes the oldest"):
            look(gone)


def test_they_travel_to_executors(site: Site) -> None:
    remote = pickle.loads(pickle.dumps(site.segments(user="reader", password=SECRET)))
    assert remote.names() == site.here.names()


def test_users_and_passwords(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    for access in ({"password": SECRET}, {"passwordFile": str(file)}):
        assert site.segments(user="reader", **access).names()
    for user, password in (("reader", "wrong"), ("nobody", SECRET)):
        with pytest.raises(HttpError) as raised:
            site.segments(user=user, password=password, reconnectSeconds="600").names()
        assert str(raised.value) == f"{site.url}: 401 Login failed"
    protocol.ask(site.broker.data_dir, "set_user_tags", {"name": "reader", "tags": ["management"]}, 10)
    with pytest.raises(HttpError, match="401 Not monitor user"):
        site.segments(user="reader", password=SECRET).names()
    protocol.ask(site.broker.data_dir, "set_user_tags", {"name": "reader", "tags": ["monitoring"]}, 10)


def test_by_tls(site: Site, authority: Authority) -> None:
    url = f"https://localhost:{web_address(site.broker, 'https')[1]}"
    assert site.segments(url=url, tlsCaFile=str(authority.ca_file)).names() == site.here.names()
    with pytest.raises(HttpError, match="unable to get local issuer certificate"):
        site.segments(url=url, reconnectSeconds="600").names()
    with pytest.raises(OptionError, match="the files of options tlsCaFile"):
        site.segments(url=url, tlsCaFile="/dev/null").names()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        url = f"http://127.0.0.1:{found.getsockname()[1]}"
    with pytest.raises(HttpError, match=f"{url}: Connection refused"):
        segments_of(Given({"url": url, "reconnectSeconds": "1"})).names()


def test_an_export_that_finds_nobody_says_so_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        url = f"http://127.0.0.1:{found.getsockname()[1]}"
    with pytest.raises(HttpError, match=f"{url}: Connection refused"):
        begin(url, str(tmp_path / "out"), {})
    assert not (tmp_path / "out").exists()


def test_who_expects_tls_where_none_is_hears_so(site: Site) -> None:
    url = site.url.replace("http://", "https://")
    with pytest.raises(HttpError, match=f"{url}: TLS is not spoken there"):
        site.segments(url=url, reconnectSeconds="600").names()


def test_somebody_else_there(site: Site) -> None:
    """An address of another program, or a path that a proxy does not know."""
    with pytest.raises(HttpError, match="404 Not Found"):
        site.segments(url=f"{site.url}/elsewhere", reconnectSeconds="600").names()
    host, port = site.broker.address
    with pytest.raises(HttpError, match=r"BadStatusLine|Connection reset"):
        site.segments(url=f"http://{host}:{port}").names()


# Broken off


class Relay:
    """Stands between reader and broker. For each connection `spoil` says what becomes of the bytes of the answer."""

    def __init__(self, upstream: Callable[[], Address], spoil: Callable[[int, bytes], bytes | None]) -> None:
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
                    with socket.create_connection(self._upstream()) as broker:
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

    def between(spoil: Callable[[int, bytes], bytes | None], upstream: Callable[[], Address] | None = None) -> Relay:
        relays.append(Relay(upstream or (lambda: web_address(site.broker)), spoil))
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
    between = relay(lambda number, data: data if number else bytes(len(data)))
    name = site.here.names()[-1]
    assert site.segments(url=between.url, reconnectSeconds="60").read(name) == site.here.read(name)
    assert len(between.requests) == 2


def test_what_stays_damaged_is_a_failure(site: Site, relay: Callable[..., Relay]) -> None:
    between = relay(lambda number, data: bytes(len(data)))
    with pytest.raises(HttpError, match="what came is not what its checksum says"):
        site.segments(url=between.url).read(site.here.names()[-1])


def test_a_broker_that_is_killed_meanwhile(tmp_path: Path, relay: Callable[..., Relay]) -> None:
    write_segments(tmp_path / "events", "one", 1, 1, filling=noise(LARGE))
    process = web_broker(tmp_path)
    process.start()

    def kill_once(number: int, data: bytes) -> bytes:
        if not number and process.running:
            process.kill()
        return data

    between = relay(kill_once, lambda: web_address(process))
    here = SegmentDirectory(tmp_path / "events")
    restart = threading.Thread(target=lambda: (eventually(lambda: not process.running, "the end"), process.start()))
    restart.start()
    try:
        remote = segments_of(Given({"url": between.url}))
        assert remote.read(here.names()[0]) == here.read(here.names()[0])
        assert len(between.requests) >= 2
    finally:
        restart.join()
        process.kill()


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
        ({"url": f"http://me:{SECRET}@b"}, "option url is without user and password"),
        ({"path": f"http://me:{SECRET}@b"}, "option url is without user and password"),
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


def test_a_password_file_that_is_not_there(site: Site) -> None:
    with pytest.raises(OptionError, match="option passwordFile: No such file or directory: /none"):
        site.segments(passwordFile="/none").names()


def test_a_place_is_shown_without_its_password() -> None:
    remote = segments_of(Given({"path": "https://b/log/", "user": "me", "password": SECRET}))
    assert isinstance(remote, SegmentHttp)
    assert str(remote._web) == "https://b:443/log"
    assert SECRET not in repr(remote._web)


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert [name for name in (*WEB, "maxSegmentsPerBatch") if f"`{name}`" not in page] == []


# The export


def export(
    site: Site, out: Path, *options: str, said: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker", "export", "events", "--from", site.url, "--to", str(out), *options]
    known = {name: value for name, value in os.environ.items() if name != "LEVERET_PASSWORD"}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, input=said, env={**known, **environment}
    )


def test_an_export_by_http(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = export(site, out, "--user", "reader", LEVERET_PASSWORD=SECRET)
    assert (done.returncode, done.stdout) == (0, f"7 events in 4 new files in {out}\n")
    assert sum(pq.read_metadata(file).num_rows for file in out.glob("*.parquet")) == 7
    file = tmp_path / "password"
    file.write_text(SECRET)
    again = export(site, out, "--user", "reader", "--password-file", str(file))
    assert (again.returncode, again.stdout) == (0, f"0 events in 0 new files in {out}\n")


def test_an_export_asks_for_the_password(site: Site, tmp_path: Path) -> None:
    done = export(site, tmp_path / "out", "--user", "reader", said=f"{SECRET}\n")
    assert done.returncode == 0, done.stderr
    refused = export(site, tmp_path / "out", "--user", "reader", said="wrong\n")
    assert (refused.returncode, refused.stderr) == (1, f"leveret: error: {site.url}: 401 Login failed\n")


def test_nothing_of_the_broker_s_log_shows_a_password(site: Site) -> None:
    assert SECRET not in site.broker.log()
