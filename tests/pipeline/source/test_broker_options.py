"""Which broker a command is a client of, when its options do not name one."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.testing import CliRunner, Result

from broker.cli.jobs.amqp_options import broker_options
from broker.cli.target_broker import Target, targeted


@click.command()
@targeted
@broker_options
def shown(_: Target, broker: dict[str, str]) -> None:
    """Print what the source `amqp` would be told."""
    click.echo(json.dumps(broker))


def run(tmp_path: Path, config: str, *options: str) -> Result:
    file = tmp_path / "leveret.toml"
    file.write_text(config)
    return CliRunner().invoke(shown, ["--config", str(file), *options])


def place(result: Result) -> tuple[str, str]:
    broker = json.loads(result.output)
    return broker["host"], broker["port"]


LISTENING = """
server.listen = ["0.0.0.0:5673"]
tls.listen = ["[::1]:5674"]
"""


def test_the_configured_one_is_meant(tmp_path: Path) -> None:
    assert place(run(tmp_path, LISTENING)) == ("127.0.0.1", "5673")
    assert place(run(tmp_path, LISTENING, "--tls")) == ("::1", "5674")
    assert place(run(tmp_path, LISTENING, "--port", "5")) == ("127.0.0.1", "5")


def test_where_none_is_configured_one_must_be_named(tmp_path: Path) -> None:
    closed = run(tmp_path, "server.listen = []")
    assert (closed.exit_code, "[server] has no address here to connect to" in closed.output) == (2, True)
    plain = run(tmp_path, "", "--tls")
    assert (plain.exit_code, "[tls] has no address here to connect to" in plain.output) == (2, True)
    assert run(tmp_path, "server.listen = []", "--host", "elsewhere").exit_code == 0
