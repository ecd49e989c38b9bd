"""Certificates and settings of TLS, and reloading them while the broker runs."""

from __future__ import annotations

import logging
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio

from broker.config import ConfigError, TlsSettings
from broker.session.login import certificate_names
from broker.wire.amqp_errors import DecodeError

log = logging.getLogger("leveret.tls")

EXPIRES_SOON = timedelta(days=14)
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_KEY = "PRIVATE KEY-----"


class Security:
    """The certificates of TLS connections. `context` is for new ones; open connections keep theirs.

    `handshake_step` is a lock for one step of a handshake, so that each turn of the event loop has one at most.
    """

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files. Raises ConfigError, which names the setting, the file and what was expected."""
        self._settings = settings
        self.context = load(settings)
        self.certificate = _own_certificate(settings)
        """The broker's own certificate, DER."""
        self.handshake_step = trio.Lock()

    @property
    def asks(self) -> bool:
        """True if clients are asked for certificates."""
        return self._settings.verify == "peer"

    def reload(self) -> bool:
        """Read the files again, for new connections. If one is invalid nothing changes, and this returns False."""
        try:
            self.context = load(self._settings)
            self.certificate = _own_certificate(self._settings)
        except ConfigError as error:
            log.error("certificates not reloaded, those in use stay: %s", error)
            return False
        log.info("certificates reloaded, for new connections")
        return True


def load(settings: TlsSettings) -> ssl.SSLContext:
    """Read the files that the settings name. Raises ConfigError; unsafe but usable ones are logged."""
    certificate = _text("tls.certificate_file", settings.certificate_file, _CERTIFICATE, "a certificate in PEM")
    _text("tls.key_file", settings.key_file, _KEY, "a private key in PEM")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[settings.minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    _use_key(context, settings)
    _use_ciphers(context, settings)
    if settings.verify == "peer":
        _use_authorities(context, settings)
        context.verify_mode = ssl.CERT_REQUIRED if settings.require_certificate else ssl.CERT_OPTIONAL
    _look_at(certificate, settings)
    return context


def _own_certificate(settings: TlsSettings) -> bytes:
    """Return the first certificate of the file, the broker's own, in DER; empty if it is not base64."""
    text = _text("tls.certificate_file", settings.certificate_file, _CERTIFICATE, "a certificate in PEM")
    try:
        return _first_certificate(text)
    except ValueError:
        return b""


def _first_certificate(text: str) -> bytes:
    first = text[text.index(_CERTIFICATE) :].partition("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(first[0] + first[1])


def _text(key: str, file: str, mark: str, expected: str) -> str:
    if not file:
        raise ConfigError(f"{key}: expected the file of {expected}, because there are listeners with TLS; got nothing")
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{key}: {file}: cannot be read: {error.strerror}; expected {expected}") from error
    if mark not in text:
        raise ConfigError(f"{key}: {file}: expected {expected}, found none in it")
    return text


def _use_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    password = _password(settings)
    asked = []

    def answer() -> bytes:  # never None: OpenSSL would ask the terminal
        asked.append(True)
        return password

    try:
        context.load_cert_chain(settings.certificate_file, settings.key_file, answer)
    except (ssl.SSLError, ValueError) as error:  # ValueError: a password longer than OpenSSL takes
        key, file = "tls.key_file", settings.key_file
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            expected = f"the key of the first certificate in {settings.certificate_file}, this is another one's"
            raise ConfigError(f"{key}: {file}: expected {expected}") from None
        if asked:
            which = "the key is encrypted, and the password does not open it" if password else "the key is encrypted"
            raise ConfigError(
                f"{key}: {file}: {which}; expected its password in tls.key_password_file, "
                "tls.key_password or LEVERET_TLS_KEY_PASSWORD"
            ) from None
        raise ConfigError(
            f"{key}: {file}: cannot be used with {settings.certificate_file}: {_words(error)}; "
            "expected a certificate with its chain and its private key in PEM"
        ) from None


def _password(settings: TlsSettings) -> bytes:
    if not settings.key_password_file:
        return settings.key_password.encode()
    try:
        return Path(settings.key_password_file).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(
            f"tls.key_password_file: {settings.key_password_file}: cannot be read: {error.strerror}"
        ) from error


def _use_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.ciphers:
        return
    try:
        context.set_ciphers(settings.ciphers)
    except ssl.SSLError:
        raise ConfigError(
            f'tls.ciphers: expected names as `openssl ciphers` lists them, got "{settings.ciphers}"'
        ) from None


def _use_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    _text("tls.ca_file", settings.ca_file, _CERTIFICATE, "the authorities that sign clients' certificates, in PEM")
    try:
        context.load_verify_locations(settings.ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"tls.ca_file: {settings.ca_file}: {_words(error)}; expected certificates in PEM") from None


def _look_at(certificate: str, settings: TlsSettings) -> None:
    """Warn of a key that others may read, and of a certificate that has expired or soon will."""
    mode = Path(settings.key_file).stat().st_mode
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        log.warning("tls.key_file: %s may be read by others (mode %04o): chmod 600", settings.key_file, mode & 0o7777)
    try:
        found = _first_certificate(certificate)
        name, until = certificate_names.subject(found), certificate_names.valid_until(found)
    except (DecodeError, ValueError):
        return  # OpenSSL reads some forms of certificates that we do not
    left = until - datetime.now(UTC)
    if left < timedelta(0):
        log.warning("the certificate %s has expired on %s: clients will refuse it", name, until.date())
    elif left < EXPIRES_SOON:
        log.warning("the certificate %s expires on %s", name, until.date())
    else:
        log.info("the certificate %s is valid until %s", name, until.date())


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not valid"
