"""TLS of the whole broker: its settings, logging in by certificate, reloading, stopping."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from broker.admin.protocol import ask
from broker.config import ConfigError
from broker.server.net.tls_context import Security, load
from broker.wire.methods import ConnectionClose, ConnectionCloseOk, ConnectionTune, QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.slow

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile."
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def started(authority: Authority, directory: Path, **settings: Any) -> BrokerProcess:
    process = BrokerProcess(directory / "data", "--config", str(authority.config(**settings)))
    process.start()
    return process


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with TLS that asks for certificates and takes their common name for the user."""
    process = started(authority, tmp_path_factory.mktemp("secured"), verify="peer", login_from="common_name")
    yield process
    if process.running:
        assert process.stop() == 0


def log_in(process: BrokerProcess, context: ssl.SSLContext, *, mechanism: str = "EXTERNAL") -> Any:
    """What comes after connection.start-ok."""
    client = Client(process.tls_address, context)
    try:
        client.start(mechanism=mechanism, response=b"" if mechanism == "EXTERNAL" else None)
        answer = client.receive(channel=0)
        if isinstance(answer, ConnectionClose):
            client.send(ConnectionCloseOk(), channel=0)
        return client.peer.server_start, answer
    finally:
        client.close()


# Logging in by certificate


def test_a_certificate_s_name_is_the_user_s(secured: BrokerProcess, authority: Authority) -> None:
    ask(secured.data_dir, "add_user", {"name": "carol", "password": "never used", "tags": []}, 10)
    ask(secured.data_dir, "clear_password", {"name": "carol"}, 10)
    start, answer = log_in(secured, authority.client(*authority.issue("carol", common_name="carol")))
    assert start.mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
    assert isinstance(answer, ConnectionTune)


def test_a_name_that_nobody_has(secured: BrokerProcess, authority: Authority) -> None:
    _, answer = log_in(secured, authority.client(*authority.issue("nobody", common_name="nobody")))
    assert (answer.reply_code, answer.reply_text, answer.class_id, answer.method_id) == (403, REFUSED, 0, 0)
    eventually(lambda: "login refused: user 'nobody' - invalid credentials" in secured.log(), "the log")


def test_a_certificate_without_the_name(secured: BrokerProcess, authority: Authority) -> None:
    _, answer = log_in(secured, authority.client(*authority.issue("unnamed", "unnamed.example")))
    assert answer.reply_text == REFUSED
    eventually(lambda: "login refused: no name found" in secured.log(), "the log")


def test_no_certificate_at_all(secured: BrokerProcess, authority: Authority) -> None:
    start, answer = log_in(secured, authority.client())
    assert start.mechanisms == b"PLAIN AMQPLAIN EXTERNAL", "offered all the same, so that the log can say what is wrong"
    assert answer.reply_text == REFUSED
    logged = "login refused: connection peer presented no TLS (x.509) certificate"
    eventually(lambda: logged in secured.log(), "the log")


def test_passwords_are_as_good_with_a_certificate(secured: BrokerProcess, authority: Authority) -> None:
    _, answer = log_in(secured, authority.client(*authority.issue("other", common_name="other")), mechanism="PLAIN")
    assert isinstance(answer, ConnectionTune)


def test_the_plain_port_offers_no_external(secured: BrokerProcess) -> None:
    client = Client(secured.address)
    client.start()
    assert client.peer.server_start is not None
    assert client.peer.server_start.mechanisms == b"PLAIN AMQPLAIN"
    client.close()


def test_connections_show_how_they_are_secured(secured: BrokerProcess, authority: Authority) -> None:
    context = authority.client(*authority.issue("shown", common_name="shown"))
    client = Client.connect(secured.tls_address, security=context)
    plain = Client.connect(secured.address)
    rows = ask(secured.data_dir, "list_connections", {}, 10)
    (shown,) = [row for row in rows if row["port"] == secured.tls_address[1] and row["state"] == "running"]
    assert (shown["ssl"], shown["ssl_protocol"]) == (True, "TLSv1.3")
    assert shown["ssl_cipher"].startswith("TLS_")
    assert "CN=shown" in shown["peer_cert_subject"]
    assert {(row["ssl"], row["ssl_protocol"]) for row in rows if row["port"] == secured.address[1]} == {(False, "")}
    status = ask(secured.data_dir, "status", {}, 10)
    assert status["tls_listeners"] == [f"127.0.0.1:{secured.tls_address[1]}"]
    client.close()
    plain.close()


def test_a_client_that_does_not_trust_us(secured: BrokerProcess) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(secured.tls_address, ssl.create_default_context())
    logged = "TLS handshake failed: the client does not trust who has signed our certificate"
    eventually(lambda: logged in secured.log(), "the log")


# Reloading and stopping


def fingerprint(process: BrokerProcess, authority: Authority) -> bytes | None:
    """The certificate that the broker shows to a new client."""
    client = Client(process.tls_address, authority.client())
    try:
        assert isinstance(client.socket, ssl.SSLSocket)
        return client.socket.getpeercert(binary_form=True)
    finally:
        client.close()


def test_a_hangup_reloads_for_new_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    process = started(authority, tmp_path)
    try:
        before = fingerprint(process, authority)
        old = Client.connect(process.tls_address, security=authority.client())
        authority.issue("server", "localhost")
        process.signal(signal.SIGHUP)
        eventually(lambda: "certificates reloaded" in process.log(), "the log")
        after = fingerprint(process, authority)
        assert after != before
        assert isinstance(old.ask(queue_declare("q")), QueueDeclareOk), "connections go on with what they began with"
        authority.key_file.write_text("no key")
        process.signal(signal.SIGHUP)
        eventually(lambda: "certificates not reloaded, those in use stay: tls.key_file: " in process.log(), "the log")
        assert fingerprint(process, authority) == after
        process.terminate()
        close = old.receive(channel=0)
        assert isinstance(close, ConnectionClose)
        assert close.reply_code == 320
        old.send(ConnectionCloseOk(), channel=0)
        assert process.wait() == 0
        old.close()
    finally:
        if process.running:
            process.kill()


def test_a_hangup_without_tls_changes_nothing(fresh_broker: BrokerProcess) -> None:
    fresh_broker.signal(signal.SIGHUP)
    eventually(lambda: "nothing to reload on SIGHUP: there is no TLS" in fresh_broker.log(), "the log")
    Client.connect(fresh_broker.address).close()


# Settings


def encrypted(authority: Authority, password: bytes) -> Path:
    key = serialization.load_pem_private_key(authority.key_file.read_bytes(), None)
    file = authority.directory / "encrypted.key"
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )
    return file


def test_an_encrypted_key(authority: Authority, tmp_path: Path) -> None:
    key_file = str(encrypted(authority, b"open sesame"))
    password_file = tmp_path / "password"
    password_file.write_text("open sesame\n")
    load(authority.settings(key_file=key_file, key_password_file=str(password_file)))
    load(authority.settings(key_file=key_file, key_password="open sesame"))
    for password in ("", "wrong"):
        with pytest.raises(
            ConfigError, match=r"tls\.key_file: .*the key is encrypted.*tls\.key_password_file"
        ) as raised:
            load(authority.settings(key_file=key_file, key_password=password))
        assert "wrong" not in str(raised.value)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"certificate_file": ""}, "tls.certificate_file: expected the file of a certificate in PEM, because"),
        ({"certificate_file": "/not/there"}, "tls.certificate_file: /not/there: cannot be read: No such file"),
        ({"key_file": "/not/there"}, "tls.key_file: /not/there: cannot be read: No such file"),
        ({"key_file": "CERTIFICATE"}, "expected a private key in PEM, found none in it"),
        ({"certificate_file": "KEY"}, "expected a certificate in PEM, found none in it"),
        ({"certificate_file": "GARBLED"}, "cannot be used with "),
        ({"key_file": "OTHER KEY"}, "this is another one's"),
        ({"verify": "peer", "ca_file": ""}, "tls.ca_file: expected the file of the certificates of those who sign"),
        ({"verify": "peer", "ca_file": "GARBLED"}, "tls.ca_file: "),
        ({"ciphers": "NONE-SUCH"}, 'tls.ciphers: expected names as `openssl ciphers` lists them, got "NONE-SUCH"'),
        ({"key_password_file": "/not/there"}, "tls.key_password_file: /not/there: cannot be read"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    authority: Authority, tmp_path: Path, changed: dict[str, Any], complaint: str
) -> None:
    garbled = tmp_path / "garbled.pem"
    garbled.write_text("-----BEGIN CERTIFICATE-----\nnot base64 at all\n-----END CERTIFICATE-----\n")
    files = {
        "CERTIFICATE": authority.certificate_file,
        "KEY": authority.key_file,
        "OTHER KEY": authority.issue("unrelated", "unrelated")[1],
        "GARBLED": garbled,
    }
    changed = {key: str(files.get(value, value)) for key, value in changed.items()}
    with pytest.raises(ConfigError) as raised:
        load(authority.settings(**changed))
    assert complaint in str(raised.value)


def test_a_start_with_bad_files_ends_in_one_line(authority: Authority, tmp_path: Path) -> None:
    config = authority.config(key_file="/not/there")
    command = [sys.executable, "-m", "broker", "serve", "--config", str(config), "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines() == [
        (
            "leveret: error: tls.key_file: /not/there: cannot be read: No such file or directory; "
            "expected a private key in PEM"
        )
    ]
    assert not (tmp_path / "data").exists(), "nothing has been touched"


def test_what_will_make_trouble_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    authority.key_file.chmod(0o644)
    with caplog.at_level("INFO"):
        Security(authority.settings())
    assert f"tls.key_file: {authority.key_file} may be read by others (mode 0644): chmod 600" in caplog.text
    assert " is valid until " in caplog.text


def test_an_expired_certificate_is_used_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import datetime

    authority = Authority(tmp_path)
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    made = authority.ca.issue_cert("localhost", not_after=past)
    authority.certificate_file.write_bytes(made.cert_chain_pems[0].bytes())
    authority.key_file.write_bytes(made.private_key_pem.bytes())
    load(authority.settings())
    assert f"has expired on {past.date()}: clients will refuse it" in caplog.text
