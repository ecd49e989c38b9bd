"""One round of the restore drill: a broker that makes backups and is lost, the lines of docs/backup.md, and a restore.

Clients take turns, so what each queue holds is known at every backup, message by message.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from broker.wire.methods import BasicAck
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain, fetch
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from leveret.testing.ports import Port

PAGE = ROOT / "docs" / "backup.md"
HEADING = "## Restore drill"
COMMAND_SECONDS = 120
QUEUES = ("orders", "payments", "letters")
BACKUPS_MAX, KEEP_MAX = 5, 3
MESSAGES_MAX, BODY_MAX = 40, 20_000

Contents = dict[str, list[bytes]]
"""The bodies in each queue, in order."""


class Drill:
    """A broker in a directory of its own, its backups, and the contents at each."""

    def __init__(self, place: Path, seed: int) -> None:
        self._dice = random.Random(seed)
        self._place = place
        self._program = _program(place)
        self.backups = place / "backups"
        self._broker = BrokerProcess(place / "data")
        self._contents: Contents = {queue: [] for queue in QUEUES}
        self._at: dict[str, Contents] = {}
        """The contents at each backup, by its name."""
        self.messages = 0
        """Messages that were compared."""

    def go_through(self) -> None:
        """Live, lose everything, drill, and restore one of the backups that are left. Raises AssertionError."""
        self._broker.start()
        try:
            self._live(self._dice.randint(2, BACKUPS_MAX), self._dice.randint(1, KEEP_MAX))
            self._broker.kill()
            shutil.rmtree(self._broker.data_dir)
            self._run_the_page()
            self._restore(self._dice.choice(self._kept()))
        finally:
            if self._broker.running:
                self._broker.kill()

    def _kept(self) -> list[str]:
        return sorted(path.name for path in self.backups.iterdir() if path.is_dir())

    def _live(self, backups: int, keep: int) -> None:
        for _ in range(backups):
            self._work()
            before = set(self._at)
            self._leveret("backup", "--keep", str(keep), str(self.backups))
            (new,) = set(self._kept()) - before
            self._at[new] = {queue: list(found) for queue, found in self._contents.items()}
        self._work()
        assert self._kept() == sorted(self._at)[-keep:], "the newest are kept"

    def _work(self) -> None:
        """Publish, and take some messages off; some are left unacknowledged, and so come back."""
        client = Client.connect(self._broker.address)
        for queue, held in self._contents.items():
            client.ask(queue_declare(queue, durable=True))
            bodies = [self._body() for _ in range(self._dice.randint(1, MESSAGES_MAX))]
            deposit(client, *bodies, key=queue, properties=PERSISTENT)
            held += bodies
            taken = fetch(client, queue, self._dice.randint(0, len(held) // 2))
            done = self._dice.randint(0, len(taken))
            for message in taken[:done]:
                client.send(BasicAck(message.method.delivery_tag, False))
            del held[:done]
            deposit(client, b"last", key=queue, properties=PERSISTENT)  # its confirm comes behind the acknowledgement
            held.append(b"last")
        client.close()

    def _body(self) -> bytes:
        return self._dice.randbytes(self._dice.choice((1, 100, self._dice.randint(1, BODY_MAX))))

    def _run_the_page(self) -> None:
        """Run the drill as the page has it, on our directories and a free port; the last backup is shown."""
        counts = {queue: str(len(held)) for queue, held in self._at[max(self._at)].items()}
        with closing(Port()) as port:
            lines = drill_lines(PAGE.read_text(), self.backups, self._place / "drill", port.number)
        shown = self._shell(lines)
        rows = dict(re.findall(rf"^({'|'.join(QUEUES)}) +(\d+)$", shown, re.MULTILINE))
        assert rows == counts, f"the drill shows {rows}, the backup has {counts}\n{shown}"
        assert not (self._place / "drill").exists()

    def _restore(self, backup: str) -> None:
        self._leveret("restore", str(self.backups / backup))
        self._broker.start()
        client = Client.connect(self._broker.address)
        for queue, expected in self._at[backup].items():
            found = drain(client, queue)
            assert found == expected, f"{queue} has {len(found)} messages, at {backup} there were {len(expected)}"
            self.messages += len(found)
        client.close()
        assert self._broker.stop() == 0, self._broker.log()

    def _leveret(self, *arguments: str) -> str:
        return self._shell(f'leveret {" ".join(arguments)} --data-dir "{self._broker.data_dir}"')

    def _shell(self, lines: str) -> str:
        environment = {**os.environ, "PATH": f"{self._program.parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-euc", lines],
            cwd=self._place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout


def drill_lines(page: str, backups: Path, directory: Path, port: int) -> str:
    """Return the commands of the page's drill, with its directories and its port replaced."""
    block = page.partition(f"\n{HEADING}\n")[2].partition("\n```sh\n")[2].partition("\n```\n")[0]
    for given, own in (("/backups", str(backups)), ("/tmp/drill", str(directory)), (":5673", f":{port}")):
        assert given in block, f"{given} is not in the drill of {PAGE.name}"
        block = block.replace(given, own)
    return block


def _program(place: Path) -> Path:
    """Make `leveret` of this checkout a command."""
    program = place / "bin" / "leveret"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m broker "$@"\n')
    program.chmod(0o755)
    return program
