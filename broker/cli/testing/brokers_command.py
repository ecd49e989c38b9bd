"""`leveret test-brokers`: brokers for a library for tests in another language."""

from __future__ import annotations

import signal
import sys

import click

from broker.cli.usage.command_groups import CommandWithExample


@click.command("test-brokers", cls=CommandWithExample, example="")
def test_brokers() -> None:
    """Run brokers for tests: a request by a line of JSON on standard input, an answer on standard output.

    For libraries, such as those for Node, Go and Java. All brokers end, and their files are deleted, at the end of
    standard input, which is that of the tests (docs/testing-with-leveret.md).
    """
    # Imported here: no other command needs it.
    from leveret.testing.hosted_brokers import HostedBrokers

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # ^C at the terminal, or its end, ends the tests, which then end this
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    HostedBrokers(sys.stdout).serve(sys.stdin)
