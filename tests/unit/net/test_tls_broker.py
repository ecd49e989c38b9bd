"""TLS of the whole broker: its settings, logging in by certificate, reloading, stopping."""

from __future__ import annotations

import datetime
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from broker.config import ConfigError
from broker.server.net.tls_context import Security, load
from broker.wire.methods import ConnectionClose, ConnectionCloseOk, ConnectionTune, QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import WITH_EXTERNAL, Authority
from harness.brokers.http_broker import web_address
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Address, Client
from harness.waiting import eventually
from tests.unit.conftest import Configured, Dial

pytestmark = pytest.mark.slow

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile."
)


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with TLS that asks for certificates and takes their common name for the user."""
    config = authority.config(*WITH_EXTERNAL, verify="peer", login_from="common_name")
    process = BrokerProcess(tmp_path_factory.mktemp("secured") / "data", "--config", str(config))
    process.start()
    yield process
    if process.running:
        assert process.stop() == 0


def log_in(process: BrokerProcess, context: ssl.SSLContext) -> Any:
    """Return the answer to connection.start-ok."""
    client = Client(process.tls_address, context)
    try:
        client.start(mechanism="EXTERNAL", response=b"")
        answer = client.receive(channel=0)
        if isinstance(answer, ConnectionClose):
            client.send(ConnectionCloseOk(), channel=0)
        return client.peer.server_start, answer
    finally:
        client.close()


# Logging in by certificate


def test_a_certificate_s_name_is_the_user_s(secured: BrokerProcess, authority: Authority, dial: Dial) -> None:
    """Connections show how they are secured."""
    secured.tell("add_user", name="carol", password="never used", tags=[])
    secured.tell("clear_password", name="carol")
    start, answer = log_in(secured, authority.client(*authority.issue("carol", common_name="carol")))
    assert start.mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
    assert isinstance(answer, ConnectionTune)
    client = Client.connect(
        secured.tls_address, security=authority.client(*authority.issue("shown", common_name="shown"))
    )  # passwords are as good with a certificate
    plain = dial(secured)
    assert plain.peer.server_start is not None
    assert plain.peer.server_start.mechanisms == b"PLAIN AMQPLAIN", "the plain port offers no EXTERNAL"
    rows = secured.tell("list_connections")
    (shown,) = [row for row in rows if row["port"] == secured.tls_address[1] and row["state"] == "running"]
    assert (shown["ssl"], shown["ssl_protocol"]) == (True, "tlsv1.3")
    assert shown["ssl_cipher"] in ("aes_256_gcm", "aes_128_gcm", "chacha20_poly1305"), "in Erlang's words"
    assert "CN=shown" in shown["peer_cert_subject"]
    assert {(row["ssl"], row["ssl_protocol"]) for row in rows if row["port"] == secured.address[1]} == {(False, "")}
    assert secured.tell("status")["tls_listeners"] == [f"127.0.0.1:{secured.tls_address[1]}"]
    client.close()


@pytest.mark.parametrize(
    ("names", "common_name", "logged"),
    [
        ((), "nobody", "login refused: user 'nobody' - invalid credentials"),
        (("unnamed.example",), None, "login refused: no name found"),
        (None, None, "login refused: connection peer presented no TLS (x.509) certificate"),
    ],
    ids=["nobody's", "without the name", "none"],
)
def test_certificates_that_let_nobody_in(
    secured: BrokerProcess, authority: Authority, names: tuple[str, ...] | None, common_name: str | None, logged: str
) -> None:
    """EXTERNAL is offered without a certificate too, so that the log can say what is wrong."""
    shown = () if names is None else authority.issue("refused", *names, common_name=common_name)
    start, answer = log_in(secured, authority.client(*shown))
    assert start.mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
    assert (answer.reply_code, answer.reply_text, answer.class_id, answer.method_id) == (403, REFUSED, 0, 0)
    eventually(lambda: logged in secured.log(), "the log")


def test_a_client_that_does_not_trust_us(secured: BrokerProcess) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(secured.tls_address, ssl.create_default_context())
    logged = "TLS handshake failed: the client does not trust the authority that signed our certificate"
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


def of_https(address: Address) -> bytes:
    """The certificate that is shown by HTTPS."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(address))


def test_a_hangup_reloads_for_new_connections(tmp_path: Path, configured: Configured) -> None:
    authority = Authority(tmp_path)
    process = configured(authority.config().read_text() + '[management]\ntls_listen = ["127.0.0.1:0"]\n')
    https = web_address(process, "https")
    before = fingerprint(process, authority)
    assert of_https(https) == before
    old = Client.connect(process.tls_address, security=authority.client())
    authority.issue("server", "localhost")
    process.signal(signal.SIGHUP)
    eventually(lambda: "certificates reloaded" in process.log(), "the log")
    after = fingerprint(process, authority)
    assert of_https(https) == after != before
    assert isinstance(old.ask(queue_declare("q")), QueueDeclareOk), "connections go on with what they began with"
    authority.key_file.write_text("no key")
    process.signal(signal.SIGHUP)
    eventually(lambda: "certificates not reloaded, those in use stay: tls.key_file: " in process.log(), "the log")
    assert fingerprint(process, authority) == after
    process.terminate()
    assert old.expect(ConnectionClose, channel=0).reply_code == 320
    old.send(ConnectionCloseOk(), channel=0)
    assert process.wait() == 0
    old.close()


def test_a_hangup_without_tls_changes_nothing(fresh_broker: BrokerProcess, dial: Dial) -> None:
    fresh_broker.signal(signal.SIGHUP)
    eventually(lambda: "nothing to reload on SIGHUP: there is no TLS" in fresh_broker.log(), "the log")
    dial(fresh_broker)


# Settings


def test_an_encrypted_key(authority: Authority, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(authority.key_file.read_bytes(), None)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key_file, password_file = tmp_path / "encrypted.key", tmp_path / "password"
    key_file.touch(mode=0o600)
    key_file.write_bytes(key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"open sesame")))
    password_file.write_text("open sesame\n")
    load(authority.settings(key_file=str(key_file), key_password_file=str(password_file)))
    load(authority.settings(key_file=str(key_file), key_password="open sesame"))
    complaint = r"tls\.key_file: .*the key is encrypted.*tls\.key_password_file"
    for password in ("", "wrong"):
        with pytest.raises(ConfigError, match=complaint) as raised:
            load(authority.settings(key_file=str(key_file), key_password=password))
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
        ({"verify": "peer", "ca_file": ""}, "tls.ca_file: expected the file of the authorities that sign"),
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


def test_what_will_make_trouble_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log warns and they are used: a key that others may read, a certificate that has expired."""
    authority = Authority(tmp_path)
    authority.key_file.chmod(0o644)
    with caplog.at_level("INFO"):
        Security(authority.settings())
    assert f"tls.key_file: {authority.key_file} may be read by others (mode 0644): chmod 600" in caplog.text
    assert " is valid until " in caplog.text
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    made = authority.ca.issue_cert("localhost", not_after=past)
    authority.certificate_file.write_bytes(made.cert_chain_pems[0].bytes())
    authority.key_file.write_bytes(made.private_key_pem.bytes())
    load(authority.settings())
    assert f"has expired on {past.date()}: clients will refuse it" in caplog.text
