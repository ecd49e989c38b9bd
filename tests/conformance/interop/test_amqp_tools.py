"""The command-line tools of librabbitmq, the C client (Debian's package amqp-tools)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from harness.clients.wire_client import Address

Name = Callable[..., str]
TOOLS = ("amqp-declare-queue", "amqp-delete-queue", "amqp-publish", "amqp-get", "amqp-consume")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def tool(address: Address, name: str, *arguments: str, stdin: bytes = b"", code: int = 0) -> bytes:
    """Run a tool; its output. It must end with this exit code."""
    command = [name, "--url", f"amqp://guest:guest@{address[0]}:{address[1]}", *arguments]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=30, check=False)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


def test_declare_publish_get_delete(broker: Address, name: Name) -> None:
    queue = name()
    assert tool(broker, "amqp-declare-queue", "--queue", queue).strip() == queue.encode()
    body = bytes(range(256)) * 1000
    tool(broker, "amqp-publish", "--routing-key", queue, stdin=body)
    tool(broker, "amqp-publish", "--routing-key", queue, "--persistent", "--body", "second")
    assert tool(broker, "amqp-get", "--queue", queue) == body
    assert tool(broker, "amqp-get", "--queue", queue) == b"second"
    tool(broker, "amqp-get", "--queue", queue, code=2)  # nothing there
    tool(broker, "amqp-delete-queue", "--queue", queue)
    assert b"no queue" in tool(broker, "amqp-get", "--queue", queue, code=1)


def test_consume_line_by_line(broker: Address, name: Name) -> None:
    """Prefetch, acknowledgements, and a count after which the tool ends."""
    queue = name()
    tool(broker, "amqp-declare-queue", "--queue", queue)
    lines = b"".join(b"line %d\n" % number for number in range(20))
    tool(broker, "amqp-publish", "--routing-key", queue, "--line-buffered", stdin=lines)
    consume = ("--queue", queue, "--prefetch-count", "3", "--count", "20", "cat")
    assert tool(broker, "amqp-consume", *consume).replace(b"\n", b"") == lines.replace(b"\n", b"")
    tool(broker, "amqp-get", "--queue", queue, code=2)
    tool(broker, "amqp-delete-queue", "--queue", queue)


def test_an_exchange_and_a_server_named_queue(broker: Address) -> None:
    """Without a queue, amqp-consume makes one of its own and binds it."""
    consumer = subprocess.Popen(
        ["amqp-consume", "--url", f"amqp://{broker[0]}:{broker[1]}", "-e", "amq.topic", "-r", "a.#", "-c", "1", "cat"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with consumer:
        assert consumer.stderr is not None
        assert consumer.stdout is not None
        assert b"amq.gen-" in consumer.stderr.readline()  # it says so before it binds, so publish until one arrives
        while consumer.poll() is None:
            tool(broker, "amqp-publish", "--exchange", "amq.topic", "--routing-key", "a.b", "--body", "hello")
        assert consumer.stdout.read() == b"hello"
