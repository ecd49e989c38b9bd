"""A broker on a data directory of its own, and what it had on disk before its last start."""

from __future__ import annotations

import random
import shutil
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from tests.durability.kills.cycle import BrokenPromiseError
from tests.security.contents.disk_images import FILE_BYTES_MAX, files_of
from tests.security.contents.forged_records import FoundRecord, found_records

LAST_WORDS = 2000
"""Characters of the broker's log that a failure shows."""
FORMS = "text", "json"
JOURNAL_BYTES = (1 << 20, 3 << 19, 4 << 20)
"""The pages of a smaller journal are written over more often."""
REAL_RECORDS_MAX = 100
CLUSTER_ID = "rabbitmq-cluster-id-"
CLIENT_SECONDS = 30.0


class ToldBroker:
    """It records events, serves HTTP, and logs at debug level. `again` is the command that repeats a failure."""

    def __init__(
        self, directory: Path, seed: int, again: str, *, form: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        """`form`: of the log; drawn if it is not given."""
        self.directory = directory
        self.boot = 0
        """Starts so far."""
        self._seed = seed
        self._again = again
        dice = self.dice("settings")
        self.form = form or dice.choice(FORMS)
        settings = directory / "settings.toml"
        settings.write_text(
            f'[logs]\nlevel = "debug"\nform = "{self.form}"\n[events]\nenabled = true\nkept_bytes = 0\n'
            f"[store]\njournal_bytes = {dice.choice(JOURNAL_BYTES)}\n"
        )
        given = None if environment is None else dict(environment)
        self.process = BrokerProcess(directory / "data", "--config", str(settings), environment=given)
        self.process.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "127.0.0.1:0")
        self._earlier: dict[str, bytes] = {}
        self.real: list[FoundRecord] = []
        """Records of the journal that were on disk before the last start."""

    def dice(self, subject: str) -> random.Random:
        """Dice for one subject in this life: how often others are thrown changes nothing of what these show."""
        return random.Random(f"{self._seed} {self.boot} {subject}")

    def start(self) -> None:
        """Start the broker, which must come up."""
        try:
            self.process.start()
        except AssertionError as error:
            raise self.broken([f"the start failed: {str(error)[:500]}"]) from error
        self.boot += 1

    def stop(self) -> None:
        """Stop it in order."""
        if self.process.stop() != 0:
            raise self.broken(["the broker did not stop in order"])

    def abandon(self) -> None:
        """Let the broker go, whatever state it is in."""
        if self.process.running:
            self.process.kill()

    def allow(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        """Give a user permissions."""
        self.process.tell("set_permissions", vhost=vhost, user=user, configure=configure, write=write, read=read)

    @contextmanager
    def guest(self, vhost: str) -> Iterator[Client]:
        """A connection that may do everything."""
        with closing(Client.connect(self.process.address, vhost=vhost, timeout=CLIENT_SECONDS)) as client:
            yield client

    def uuid(self) -> bytes:
        """The store's UUID, as everybody is told it."""
        rows = self.process.tell("list_global_parameters")
        identity: str = next(row["value"] for row in rows if row["name"] == "internal_cluster_id")
        return urlsafe_b64decode(identity.removeprefix(CLUSTER_ID) + "==")

    def files(self, dice: random.Random) -> dict[str, bytes]:
        """Return files on disk, now or before the last start; and the log."""
        earlier = self._earlier and dice.random() < 0.5
        files = self._earlier if earlier else files_of(self.process.data_dir)
        return {**files, self.process.log_file.name: self.process.log_file.read_bytes()[:FILE_BYTES_MAX]}

    @property
    def _copy(self) -> Path:
        return self.directory / "before the last start"

    def keep_a_copy(self) -> None:
        """Keep what a life has left, and note its records."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.process.data_dir, self._copy, ignore=shutil.ignore_patterns("*.sock"))
        self._earlier = files_of(self._copy)
        self.real = [found for data in self._earlier.values() for found in found_records(data)][:REAL_RECORDS_MAX]

    def expect_none(self, *problems: str) -> None:
        """Raise BrokenPromiseError if there are any."""
        if problems:
            raise self.broken(list(problems))

    def broken(self, problems: list[str]) -> BrokenPromiseError:
        """Return a failure with the problems, the place to look and the command to repeat it."""
        lines = [
            f"seed {self._seed}, life {self.boot}: {len(problems)} problems",
            *problems,
            f"again: {self._again}",
            f"the broker's last words: {self.process.log()[-LAST_WORDS:]!a}",
            f"data: {self.process.data_dir}; as it was before the last start: {self._copy}",
        ]
        return BrokenPromiseError("\n".join(lines))
