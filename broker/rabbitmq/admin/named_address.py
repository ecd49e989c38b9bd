"""Address of the management API of the broker whose data directory is named."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from broker.admin.commands.node_admin import ListListeners
from broker.admin.protocol import AdministrationError, NotRunning
from broker.admin.socket_conversation import ask
from broker.cli.named_directory import named, target_settings
from broker.cli.target_broker import ANSWER_SECONDS

PROTOCOLS = ("http", "https")
"""Those of the management API, the preferred one first."""
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that stand for all of the machine's, and its own of that kind."""


class HttpAddress(NamedTuple):
    """An address that is listened on for HTTP."""

    host: str
    port: int
    tls: bool


def named_address() -> HttpAddress | None:
    """The API of the broker on the data directory that the command line or the environment names; None: none is named.

    Raises ConfigError, and AdministrationError where no broker runs there, or one without the API.
    """
    name = named()
    if name.config is None and name.data_dir is None:
        return None
    directory = target_settings(name).server.directory
    try:
        listeners = ask(directory, ListListeners(), ANSWER_SECONDS)
    except NotRunning as error:
        raise AdministrationError(
            error.kind, f"no broker is running on the data directory {_said(directory)}"
        ) from error
    for protocol in PROTOCOLS:
        for listener in listeners:
            if listener["protocol"] == protocol:
                host = listener["interface"].strip("[]")
                return HttpAddress(EVERYWHERE.get(host, host), listener["port"], protocol == "https")
    text = f"the broker has no management API (management.listen is off) on the data directory {_said(directory)}"
    raise AdministrationError("no_http", text)


def _said(directory: Path) -> str:
    how = "which LEVERET_DATA_DIR or LEVERET_CONFIG names; --host, --port or --base-uri name another API"
    return f"{directory.absolute()}, {how}"
