"""SeaweedFS with one bucket: a server that speaks the protocol of S3."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from harness.waiting import eventually

SECONDS = 60.0
BUCKET = "away"
_PATHS = str(Path(sys.executable).parent)
WEED = shutil.which("weed", path=_PATHS) or shutil.which("weed")
MISSING = "no SeaweedFS is installed: it has wheels for some machines only"
_PORTS = ("master", "volume", "filer", "s3")


class S3Server(NamedTuple):
    """A server that runs. `environment`: variables with which the bucket can be read and written."""

    endpoint: str
    environment: dict[str, str]

    @property
    def place(self) -> str:
        return f"s3://{BUCKET}"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server that has its data in memory or a temporary directory, and give them up."""
    with TemporaryDirectory(prefix="leveret-s3.") as made:
        directory = Path(made)
        identity = {
            "name": "shipping",
            "credentials": [{"accessKey": "the-key", "secretKey": "the-secret"}],
            "actions": [f"{action}:{BUCKET}" for action in ("Read", "Write", "List")],
        }
        (directory / "s3.json").write_bytes(msgspec.json.encode({"identities": [identity]}))
        ports = dict(zip(_names_of_ports(), _free_ports(len(_names_of_ports())), strict=True))
        server = S3Server(
            f"http://127.0.0.1:{ports['s3.port']}",
            {"AWS_ACCESS_KEY_ID": "the-key", "AWS_SECRET_ACCESS_KEY": "the-secret", "AWS_REGION": "us-east-1"},
        )
        with _running(directory, ports) as process:
            eventually(lambda: _writes(process, server), "the S3 server to write", seconds=SECONDS)
            yield server


@contextmanager
def _running(directory: Path, ports: dict[str, int]) -> Iterator[subprocess.Popen[bytes]]:
    options = {
        "dir": directory / "data",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "bucket": BUCKET,
        "s3.config": directory / "s3.json",
        "webdav": "false",
        "admin.ui": "false",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        **ports,
    }
    (directory / "data").mkdir()
    command = [str(WEED), "mini", *(f"-{name}={value}" for name, value in options.items())]
    # Its own logs go to the directory for temporary files.
    environment = os.environ | {"TMPDIR": str(directory)}
    with (directory / "log").open("wb") as log:
        with subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment) as process:
            try:
                yield process
            finally:
                process.kill()  # a stop in order takes a second


def _names_of_ports() -> list[str]:
    return [name for part in _PORTS for name in (f"{part}.port", f"{part}.port.grpc")]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


def _writes(process: subprocess.Popen[bytes], server: S3Server) -> bool:
    assert process.poll() is None, "the S3 server has ended"
    key, secret, region = server.environment.values()
    store = S3Store(
        BUCKET,
        endpoint=server.endpoint,
        region=region,
        access_key_id=key,
        secret_access_key=secret,
        client_options={"allow_http": True},
    )
    with suppress(BaseError, OSError):
        obstore.put(store, "written-at-the-start", b"")
        return True
    return False
