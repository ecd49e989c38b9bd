"""Copies of both stores that are made at the same time, while queues come and go."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.admin.administration import Administration
from broker.admin.commands.command_execution import carry_out
from broker.admin.commands.node_admin import Backup
from broker.admin.commands.vhost_admin import DeleteVhost
from broker.admin.protocol import AdministrationError
from broker.config import Config, ServerSettings
from broker.entities.queues.queue import Queue, QueueSpec
from broker.server import recovery
from broker.server.engine import Wakeup
from broker.server.offline.offline_check import check
from broker.server.server import Server
from broker.wire.field_tables import from_python
from harness.brokers.broker_core import message
from harness.brokers.broker_server import eventually


class Broker:
    """A server without listeners, and the first copy of its definitions held back until `let_go` is set."""

    def __init__(self, server: Server, administration: Administration, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.administration = administration
        self.messages_copied = threading.Event()
        self.let_go = threading.Event()
        self._copy = server.stores.definitions.backup
        monkeypatch.setattr(server.stores.definitions, "backup", self._held_copy)

    def _held_copy(self, path: Path, backup_id: bytes) -> None:
        if not self.messages_copied.is_set():
            self.messages_copied.set()
            assert self.let_go.wait(60)
        self._copy(path, backup_id)

    async def backup(self, directory: Path) -> None:
        """Copy both stores, as the command does."""
        await carry_out(self.administration, Backup(directory=str(directory)))

    async def queue(self, name: str) -> Queue:
        """A durable queue with messages, on disk."""
        vhost = self.administration.vhost("/")
        queue = await self.administration.settled(vhost.declare_queue(QueueSpec(name, True, False, False, {}), None))
        queue.publish_all([message(b"x" * 100, key=name) for _ in range(100)])
        await self.administration.written()
        return queue

    async def delete(self, queue: Queue) -> None:
        """Delete a queue; the message store holds nothing of it any more when this returns."""
        await self.administration.settled(self.administration.vhost("/").delete_queue(queue))
        await self.administration.written()
        await eventually(lambda: not self.server.committer.deleted, "records of the deleted queue to be cleared away")
        await self.server.definition_log.flush()

    def tombstones(self) -> frozenset[int]:
        """The deleted queues that the definitions still name."""
        return self.server.stores.definitions.load().tombstones


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty data directory."""
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


@asynccontextmanager
async def running(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    config = Config(server=ServerSettings(data_dir=str(directory)))
    stores = recovery.open_stores(directory)
    wakeup = Wakeup()
    recovered = recovery.recover(config, stores, wakeup.pace)
    async with trio.open_nursery() as nursery:
        server = Server(config, stores, recovered, wakeup, nursery)
        server.committer.start(recovered.tombstones)
        for task in (server.committer.watch, server.definition_log.run, server.engine.run):
            nursery.start_soon(task)
        yield Broker(server, server.administration, monkeypatch)
        await server.definition_log.flush()
        await server.committer.finish()
        nursery.cancel_scope.cancel()
    stores.definitions.close()
    stores.messages.close()
    os.close(stores.lock)


async def test_of_two_copies_the_one_that_takes_longer_is_whole(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else writes to its directory meanwhile."""
    async with running(directory, monkeypatch) as broker:
        queue = await broker.queue("q")
        async with trio.open_nursery() as copies:
            copies.start_soon(broker.backup, tmp_path / "long")
            await trio.to_thread.run_sync(broker.messages_copied.wait)
            with pytest.raises(AdministrationError, match="is being written by another backup"):
                await broker.backup(tmp_path / "long")
            await broker.backup(tmp_path / "short")
            await broker.delete(queue)
            broker.let_go.set()
        await broker.server.definition_log.flush()
        assert broker.tombstones() == frozenset(), "nothing keeps them any more"
    for name in ("short", "long"):
        assert check(tmp_path / name)["problems"] == [], name
        assert not list(tmp_path.glob(f"{name}.*"))  # noqa: ASYNC240


async def test_a_copy_that_fails_keeps_tombstones_no_longer(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(directory, monkeypatch) as broker:
        queue = await broker.queue("q")
        broker.messages_copied.set()
        with pytest.raises(AdministrationError, match="exists already"):
            await broker.backup(directory)
        await broker.delete(queue)
        assert broker.tombstones() == frozenset()
        await broker.backup(tmp_path / "whole")
    assert check(tmp_path / "whole")["problems"] == []


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 5}], ids=["classic", "priorities"])
async def test_a_durable_queue_that_never_had_a_message_leaves_no_tombstone(
    directory: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    async with running(directory, monkeypatch) as broker:
        spec, administration = QueueSpec("q", True, False, False, from_python(arguments)), broker.administration
        queue = await administration.settled(administration.vhost("/").declare_queue(spec, None))
        await broker.delete(queue)
        await administration.settled(administration.vhost("/").declare_queue(spec, None))
        await carry_out(administration, DeleteVhost(name="/"))
        await eventually(lambda: not broker.tombstones(), "the tombstones to go")
