"""Confirmed messages through what operators and others do between a kill and the next start, with the real broker."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain, numbered
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from storage.journal.journal_file import HEADER, MAGIC, NAME, PAGE_BYTES, RING_AT
from tests.durability.faults.full_disks import SmallDisk, tmpfs

pytestmark = pytest.mark.slow

WARM = b"the first batch of a boot goes to LMDB"
MESSAGES = 30
MANY, LARGE = 20, 65536
"""Messages, and bytes of each, for which LMDB has not enough free pages."""
DISK_BYTES = 120 << 20


def leveret(data: Path, *arguments: str) -> CompletedProcess[str]:
    """A command line on a data directory."""
    return run_text(*arguments, "--data-dir", str(data))


def refusal(broker: BrokerProcess) -> str:
    """The one line with which a start is refused."""
    done = leveret(broker.data_dir, "serve", "--listen", "127.0.0.1:0", *broker.http)
    assert (done.returncode, done.stdout) == (1, ""), done
    line = done.stderr.splitlines()[-1]
    assert line.startswith("leveret: error: ")
    assert "Traceback" not in done.stderr
    return line


def publish(broker: BrokerProcess, *bodies: bytes) -> None:
    """Have messages confirmed in queue q, with a sync each."""
    client = Client.connect(broker.address)
    client.ask(queue_declare("q", durable=True))
    for body in bodies:
        deposit(client, body, key="q", properties=PERSISTENT)
    client.close()


def held(broker: BrokerProcess) -> list[bytes]:
    """Take everything out of queue q."""
    client = Client.connect(broker.address)
    client.ask(queue_declare("q", durable=True))
    found = drain(client, "q")
    client.close()
    return found


def killed(broker: BrokerProcess, *bodies: bytes) -> None:
    """Leave a broker killed, with messages that only the journal has."""
    publish(broker, WARM)
    publish(broker, *bodies)
    broker.kill()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[tuple[SmallDisk, BrokerProcess]]:
    """A broker on a small disk, which others may fill."""
    with tmpfs(tmp_path, DISK_BYTES) as mounted:
        if not mounted:
            pytest.skip("no file system can be mounted here")
        broker = BrokerProcess(tmp_path / "disk" / "data")
        broker.start()
        try:
            yield SmallDisk(tmp_path / "disk"), broker
        finally:
            if broker.running:
                broker.kill()


@pytest.mark.parametrize("journal_bytes", [None, 0, 65536, 8 << 20])
@pytest.mark.parametrize("command", [(), ("list", "queues", "name", "messages"), ("user", "list"), ("inspect",)])
def test_a_full_disk_and_a_command_before_the_next_start(
    full: tuple[SmallDisk, BrokerProcess], tmp_path: Path, command: tuple[str, ...], journal_bytes: int | None
) -> None:
    """LMDB has not got what is in the journal, and there is no room for it: it is there when there is room again."""
    disk, broker = full
    publish(broker, WARM)
    disk.fill()
    confirmed = [body.ljust(LARGE, b".") for body in numbered(MANY)]
    publish(broker, *confirmed)
    broker.kill()
    disk.fill()
    if command:
        leveret(broker.data_dir, *command)
    if journal_bytes is not None:
        settings = tmp_path / "settings.toml"
        settings.write_text(f"[store]\njournal_bytes = {journal_bytes}\n")
        broker.options = ("--config", str(settings))
        if broker.try_to_start():
            broker.kill()
        else:
            assert broker.wait() == 1
    disk.empty()
    broker.start()
    assert held(broker) == [WARM, *confirmed]


def test_a_backup_that_is_copied_over_a_later_state(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """The later boots' journal is not taken for its own, and what is confirmed from then on is kept."""
    publish(fresh_broker, b"in the backup")
    backup = tmp_path / "backup"
    assert leveret(fresh_broker.data_dir, "backup", str(backup)).returncode == 0
    fresh_broker.restart()
    publish(fresh_broker, *numbered(40))
    assert held(fresh_broker) == [b"in the backup", *numbered(40)]
    assert fresh_broker.stop() == 0
    shutil.copytree(backup, fresh_broker.data_dir, dirs_exist_ok=True)
    fresh_broker.start()
    publish(fresh_broker, b"a", b"b", b"c")
    fresh_broker.kill_and_restart()
    assert held(fresh_broker) == [b"in the backup", b"a", b"b", b"c"]
    assert "numbers continue above all known ones" in fresh_broker.log()


def test_half_of_a_backup_is_refused(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    publish(fresh_broker, b"1")
    backup = tmp_path / "backup"
    assert leveret(fresh_broker.data_dir, "backup", str(backup)).returncode == 0
    publish(fresh_broker, b"2")
    fresh_broker.kill()
    shutil.copytree(fresh_broker.data_dir, kept := tmp_path / "kept", ignore=shutil.ignore_patterns("*.sock"))
    for name in ("messages/data.mdb", "definitions.sqlite"):
        shutil.copyfile(backup / name, fresh_broker.data_dir / name)
        if name == "definitions.sqlite":
            (fresh_broker.data_dir / "definitions.sqlite-wal").unlink()
        assert "not of the same backup" in refusal(fresh_broker)
        shutil.rmtree(fresh_broker.data_dir)
        shutil.copytree(kept, fresh_broker.data_dir)
    fresh_broker.start()
    assert held(fresh_broker) == [b"1", b"2"]


@pytest.mark.parametrize("replace", [False, True])
def test_restore(fresh_broker: BrokerProcess, tmp_path: Path, replace: bool) -> None:
    """By command: what was there is set aside, and positions go on above all that were given out."""
    publish(fresh_broker, b"1")
    backup, data = tmp_path / "backup", fresh_broker.data_dir
    assert leveret(data, "backup", str(backup)).returncode == 0
    refused = leveret(data, "restore", str(backup), "--replace")
    assert "is in use" in refused.stderr
    publish(fresh_broker, b"2")
    fresh_broker.kill()
    if not replace:
        assert "--replace" in leveret(data, "restore", str(backup)).stderr
        data = fresh_broker.data_dir = tmp_path / "elsewhere"
    done = leveret(data, "restore", str(backup), *(["--replace"] if replace else []))
    assert done.returncode == 0, done
    assert "1 queue, 1 message restored" in done.stdout
    fresh_broker.start()
    publish(fresh_broker, b"3")
    fresh_broker.kill_and_restart()
    assert held(fresh_broker) == [b"1", b"3"]
    assert fresh_broker.stop() == 0
    if replace:
        (replaced,) = data.glob("replaced-*")
        fresh_broker.data_dir = replaced
        fresh_broker.start()
        assert held(fresh_broker) == [b"1", b"2"]


def test_a_damaged_backup_replaces_nothing(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    publish(fresh_broker, b"1")
    backup = tmp_path / "backup"
    assert leveret(fresh_broker.data_dir, "backup", str(backup)).returncode == 0
    fresh_broker.kill()
    whole = (backup / "messages" / "data.mdb").read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole.replace(b"\x02q", b"\x02Q").replace(b"1", b"2")):
        (backup / "messages" / "data.mdb").write_bytes(damaged)
        done = leveret(fresh_broker.data_dir, "restore", str(backup), "--replace")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done
        assert not list(fresh_broker.data_dir.glob("re[ps]*"))
    fresh_broker.start()
    assert held(fresh_broker) == [b"1"]


JOURNALS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: os.truncate(path, 0),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut short": lambda path: os.truncate(path, RING_AT + 10 * PAGE_BYTES),
    "zeroed from a record on": lambda path: path.write_bytes(
        path.read_bytes()[: RING_AT + 3 * PAGE_BYTES].ljust(path.stat().st_size, b"\0")
    ),
}


@pytest.mark.parametrize("change", JOURNALS)
def test_a_journal_that_is_gone(fresh_broker: BrokerProcess, change: str) -> None:
    """The start is refused in one line; with the loss accepted it goes on, and the log has what is lost."""
    killed(fresh_broker, *numbered(MESSAGES))
    journal = fresh_broker.data_dir / "messages" / NAME
    kept = journal.read_bytes()
    JOURNALS[change](journal)
    line = refusal(fresh_broker)
    for words in (str(journal), "leveret recover --accept-loss"):
        assert words in line
    # On a busy machine LMDB may have caught up before the kill: then no batch is known to be lost.
    assert re.search("at least (are|is) lost|on may be lost", line)
    journal.write_bytes(kept)
    fresh_broker.start()
    assert held(fresh_broker) == [WARM, *numbered(MESSAGES)]
    fresh_broker.stop()


@pytest.mark.parametrize("by", ["command", "setting"])
def test_a_loss_that_is_accepted(fresh_broker: BrokerProcess, by: str) -> None:
    killed(fresh_broker, *numbered(MESSAGES))
    JOURNALS["cut short"](fresh_broker.data_dir / "messages" / NAME)
    if by == "setting":
        settings = fresh_broker.data_dir.parent / "settings.toml"
        settings.write_text("[store]\naccept_loss = true\n")
        fresh_broker.options = ("--config", str(settings))
    else:
        assert leveret(fresh_broker.data_dir, "recover").returncode == 1
        accepted = leveret(fresh_broker.data_dir, "recover", "--accept-loss")
        assert (accepted.returncode, "lost" in accepted.stdout) == (0, True), accepted
    fresh_broker.start()
    assert ("the loss is accepted" in fresh_broker.log()) == (by == "setting")
    left = held(fresh_broker)
    assert 0 < len(left) < MESSAGES
    assert left == [WARM, *numbered(MESSAGES)][: len(left)]


def test_a_damaged_journal_on_a_full_disk(full: tuple[SmallDisk, BrokerProcess]) -> None:
    """The remedy that is named works without room: a file that is set aside takes none."""
    disk, broker = full
    publish(broker, WARM)
    disk.fill()
    publish(broker, *numbered(100))
    broker.kill()
    journal = broker.data_dir / "messages" / NAME
    data = bytearray(journal.read_bytes())
    record = RING_AT + 50 * PAGE_BYTES
    assert data[record : record + 4] == MAGIC
    data[record + HEADER.size + 30] ^= 0xFF
    journal.write_bytes(data)
    disk.fill()
    assert "journal is damaged" in refusal(broker)
    done = leveret(broker.data_dir, "recover", "--accept-loss")
    assert done.returncode == 0, done
    broker.start()
    assert len(held(broker)) == 100


def test_images_of_records_in_messages(fresh_broker: BrokerProcess) -> None:
    """By somebody who has read the file itself: no start takes one for its own."""
    publish(fresh_broker, WARM)
    publish(fresh_broker, *numbered(MESSAGES))
    fresh_broker.kill()
    data = (fresh_broker.data_dir / "messages" / NAME).read_bytes()
    images = data[RING_AT : RING_AT + 20 * PAGE_BYTES]
    fresh_broker.start()
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("hostile", durable=True))
    bodies = [bytes(shift) + images for shift in range(0, PAGE_BYTES, 512)]
    for body in bodies:
        deposit(client, body, key="hostile", properties=PERSISTENT)
    client.close()
    for _ in range(2):
        fresh_broker.restart()
        fresh_broker.kill_and_restart()
    client = Client.connect(fresh_broker.address)
    assert drain(client, "hostile") == bodies
    client.close()
    assert held(fresh_broker) == [WARM, *numbered(MESSAGES)]


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_a_backup_that_is_copied_over_a_killed_broker(fresh_broker: BrokerProcess, tmp_path: Path, ended: str) -> None:
    """SQLite would apply the later -wal to the older file."""
    publish(fresh_broker, b"1")
    backup = tmp_path / "backup"
    assert leveret(fresh_broker.data_dir, "backup", str(backup)).returncode == 0
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("later", durable=True))
    deposit(client, b"2", key="later", properties=PERSISTENT)
    client.close()
    if ended == "killed":
        fresh_broker.kill()
    else:
        fresh_broker.stop()
    shutil.copytree(backup, fresh_broker.data_dir, dirs_exist_ok=True)
    fresh_broker.start()
    assert [row["name"] for row in fresh_broker.tell("list_queues", vhost="/")] == ["q"]
    publish(fresh_broker, b"3")
    fresh_broker.kill_and_restart()
    assert held(fresh_broker) == [b"1", b"3"]


def test_an_earlier_definitions_file_beside_a_later_wal(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """The start is refused, and neither file changed: with the right one in place everything is there."""
    fresh_broker.stop()
    shutil.copyfile(fresh_broker.data_dir / "definitions.sqlite", earlier := tmp_path / "earlier")
    fresh_broker.start()
    publish(fresh_broker, b"1")
    fresh_broker.restart()
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q2", durable=True))
    client.close()
    fresh_broker.kill()
    data = fresh_broker.data_dir
    shutil.copyfile(data / "definitions.sqlite", later := tmp_path / "later")
    shutil.copyfile(earlier, data / "definitions.sqlite")
    wal = (data / "definitions.sqlite-wal").read_bytes()
    inspected = leveret(data, "inspect")
    assert f"{data / 'definitions.sqlite'} is of an earlier moment than its -wal" in inspected.stderr
    assert "is of an earlier moment than its -wal" in refusal(fresh_broker)
    assert (data / "definitions.sqlite-wal").read_bytes() == wal
    shutil.copyfile(later, data / "definitions.sqlite")
    fresh_broker.start()
    assert {row["name"] for row in fresh_broker.tell("list_queues", vhost="/")} == {"q", "q2"}


def test_definitions_of_an_earlier_moment(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """The file alone, or without its -wal: a queue that was declared would be missing."""
    data = fresh_broker.data_dir
    fresh_broker.kill()
    shutil.copytree(data, earlier := tmp_path / "earlier", ignore=shutil.ignore_patterns("*.sock"))
    fresh_broker.start()
    publish(fresh_broker, b"1")
    fresh_broker.kill()
    (data / "definitions.sqlite-wal").unlink()
    assert "definitions.sqlite" in (line := refusal(fresh_broker))
    assert "changes are lost" in line
    for path in data.glob("definitions.sqlite*"):
        path.unlink()
    for path in earlier.glob("definitions.*"):
        shutil.copyfile(path, data / path.name)
    assert "does not name 1 queues" in refusal(fresh_broker)
    assert json.loads(leveret(data, "check", "--json").stdout)["problems"]
    assert leveret(data, "recover", "--accept-loss").returncode == 0
    fresh_broker.start()
    assert held(fresh_broker) == []


@pytest.mark.parametrize("command", ["check", "recover"])
def test_commands_after_a_first_start_that_was_cut_short(tmp_path: Path, command: str) -> None:
    """SQLite has made its file, and nothing is in it yet."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "definitions.sqlite").touch()
    done = leveret(tmp_path / "data", command)
    assert done.returncode == 1
    assert "its first start was cut short: start it again" in done.stderr
