"""Certificates made for a test: one authority, the broker's certificate, and whoever else needs one."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import trustme

from broker.config import TlsSettings

WITH_EXTERNAL = ("[server]", 'auth_mechanisms = ["PLAIN", "AMQPLAIN", "EXTERNAL"]')
"""For `Authority.config`: clients may log in by certificate."""


class Authority:
    """Signs certificates, and keeps them as files in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.ca_file = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(self.ca_file)
        self.certificate_file, self.key_file = self.issue("server", "localhost", "127.0.0.1")

    def issue(self, file: str, *names: str, common_name: str | None = None) -> tuple[Path, Path]:
        """A certificate for these alternative names, and its key, each in a file of its own."""
        made = self.ca.issue_cert(*names, common_name=common_name)
        certificate, key = self.directory / f"{file}.pem", self.directory / f"{file}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        key.touch(mode=0o600)
        key.write_bytes(made.private_key_pem.bytes())
        return certificate, key

    def settings(self, **changed: Any) -> TlsSettings:
        """Return the broker's settings, with changes."""
        values = {
            "listen": ("127.0.0.1:0",),
            "certificate_file": str(self.certificate_file),
            "key_file": str(self.key_file),
            "ca_file": str(self.ca_file),
        }
        return TlsSettings(**{**values, **changed})

    def config(self, *more: str, **changed: Any) -> Path:
        """The same as a file for `--config`, with more lines behind it."""
        settings = self.settings(**changed)
        lines = [f"{name} = {_toml(getattr(settings, name))}" for name in settings.__struct_fields__]
        file = self.directory / "leveret.toml"
        file.write_text("\n".join(["[tls]", *lines, *more]) + "\n")
        return file

    def client(self, *certificate: Path) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority; with a certificate (and its key) it shows that."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if certificate:
            context.load_cert_chain(*map(str, certificate))
        return context


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value).lower() if isinstance(value, bool | int) else f"'{value}'"
