"""The broker of a command whose options do not name one."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
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


LISTENING = """
server.listen = ["0.0.0.0:5673"]
tls.listen = ["[::1]:5674"]
"""


@pytest.mark.parametrize(
    ("config", "options", "place"),
    [
        (LISTENING, (), ("127.0.0.1", "5673")),
        (LISTENING, ("--tls",), ("::1", "5674")),
        (LISTENING, ("--port", "5"), ("127.0.0.1", "5")),
        ("server.listen = []", ("--host", "elsewhere"), ("elsewhere", "5672")),
    ],
)
def test_the_configured_one_is_meant(
    tmp_path: Path, config: str, options: tuple[str, ...], place: tuple[str, str]
) -> None:
    broker = json.loads(run(tmp_path, config, *options).output)
    assert (broker["host"], broker.get("port", "5672")) == place


@pytest.mark.parametrize(
    ("config", "options", "section"), [("server.listen = []", (), "server"), ("", ("--tls",), "tls")]
)
def test_where_none_is_configured_one_must_be_named(
    tmp_path: Path, config: str, options: tuple[str, ...], section: str
) -> None:
    closed = run(tmp_path, config, *options)
    assert (closed.exit_code, f"[{section}] has no address here to connect to" in closed.output) == (2, True)
