"""The commands of README and docs run as they stand there, in order, for a reader in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.project import ROOT
from tests.documents.page_commands import ELSEWHERE, RUN, Page

BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SECONDS = 120
HOSTS = {"127.0.0.2": "rabbit.example.com", "127.0.0.3": "broker.example"}
LOOPBACK_UP = "import fcntl, socket, struct; s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 1))"
"""SIOCSIFFLAGS with IFF_UP: a network of one's own has its loopback down."""


def pages_with_commands() -> dict[str, list[str]]:
    """Return the blocks for a shell by page."""
    pages = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/operations").glob("*.md")),
    ]
    found = {page.relative_to(ROOT).as_posix(): BLOCK.findall(page.read_text(encoding="utf-8")) for page in pages}
    return {page: blocks for page, blocks in found.items() if blocks}


def script(page: Page, blocks: list[str]) -> str:
    """Return the shell's program: what the reader has before each block, and the block."""
    lines = ["set -euo pipefail"]
    for number, block in enumerate(blocks):
        lines.append(page.before.get(number, ""))
        lines += [line for line in block.splitlines() if not line.strip().startswith(tuple(page.skipped) or "\0")]
    text = "\n".join(lines)
    for there, here in page.replaced.items():
        text = text.replace(there, here)
    return f"{text}\n"


def run(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's program in an empty directory, with a network, hosts and processes of its own."""
    home, tools = directory / "home", directory / "tools"
    home.mkdir()
    tools.mkdir()
    for name in ("leveret", "pytest"):
        (tools / name).symlink_to(Path(sys.executable).with_name(name))
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    (home / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
    (directory / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for ip, name in HOSTS.items()))
    (directory / "passwords").write_text("secret\n" * 20_000)
    (directory / "page.sh").write_text(program)
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    begin = f'mount --bind ../hosts /etc/hosts; python -c "{LOOPBACK_UP}"; exec bash ../page.sh'
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    with (directory / "passwords").open() as passwords:
        return subprocess.run(
            ["unshare", *users, *namespaces, "sh", "-ec", begin],
            cwd=home,
            env=environment,
            stdin=passwords,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def test_every_page_with_commands_is_known() -> None:
    assert set(pages_with_commands()) == {*RUN, *ELSEWHERE}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run(name: str, tmp_path: Path) -> None:
    found = run(tmp_path, script(RUN[name], pages_with_commands()[name]))
    assert found.returncode == 0, f"{found.stdout[-1500:]}\n{found.stderr[-3000:]}"
