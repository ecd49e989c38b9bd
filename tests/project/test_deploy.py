"""The files of deploy/ fit each other and the commands: systemd's units, and Kubernetes' objects where kubectl is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path

import click
import pytest

from broker.cli.main import leveret
from harness.project import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
PROGRAM = "/usr/local/bin/leveret"


def unit(name: str) -> Mapping[str, str]:
    """The section [Service] of a unit."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / name)
    return parser["Service"]


def parsed(line: str) -> dict[str, object]:
    """The options and arguments of a command line of `leveret`, as it takes them."""
    name, *arguments = line.split()
    command = leveret.get_command(click.Context(leveret), name)
    assert command is not None
    return command.make_context(name, arguments).params


def test_the_backup_unit_writes_where_the_broker_may() -> None:
    service, broker = unit("leveret-backup.service"), unit("leveret.service")
    given = parsed(service["ExecStart"].removeprefix(PROGRAM))
    assert given["keep"] == 7
    assert str(given["directory"]) in {f"/var/lib/{name}" for name in broker["StateDirectory"].split()}
    assert str(given["directory"]) in service["ReadWritePaths"].split()
    for key in ("User", "Group", "Environment"):
        assert service[key] == broker[key]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    units = [tmp_path / path.name for path in DEPLOY.glob("leveret*.*") if path.suffix in (".service", ".timer")]
    for path in units:
        path.write_text((DEPLOY / path.name).read_text().replace(PROGRAM, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", *map(str, units)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_broker_is_as_exposed_as_the_page_says() -> None:
    (told,) = re.findall(r"exposure (\d\.\d) of 10", (ROOT / "docs/services.md").read_text(encoding="utf-8"))
    command = ["systemd-analyze", "security", "--offline=yes", str(DEPLOY / "leveret.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"exposure level for leveret.service: {told} " in done.stdout, done.stderr


def test_the_backup_job_and_the_broker_share_volumes_and_user() -> None:
    broker, job, patch = ((KUBERNETES / f"{name}.yaml").read_text() for name in ("leveret", "backup", "backup-volume"))
    (line,) = re.findall(r"command: \[leveret, (.*)\]", job)
    given = parsed(line.replace(",", "").replace('"', ""))
    mount = f"{{name: backups, mountPath: {given['directory']}}}"
    assert mount in job
    assert mount in patch
    claim = "persistentVolumeClaim: {claimName: leveret-backups}"
    assert claim in job
    assert claim in patch
    assert "claimName: data-leveret-0" in job  # of the broker's claims template and pod: data, leveret-0
    assert re.search(r"volumeClaimTemplates:\n    - metadata:\n        name: data\n", broker)
    for shared in (
        "{name: data, mountPath: /var/lib/rabbitmq}",
        "runAsUser: 999",
        "image: registry.example.com/leveret",
    ):
        assert shared in broker
        assert shared in job


def test_the_standby_follows_as_the_broker_that_it_becomes() -> None:
    standby, broker = unit("leveret-standby.service"), unit("leveret.service")
    given = parsed(standby["ExecStart"].removeprefix(PROGRAM))
    assert given == {"place": None, "listen": (), "management_listen": (), "prometheus_listen": ()}
    for key in ("User", "Group", "Environment", "Type", "Restart", "CapabilityBoundingSet", "SystemCallFilter"):
        assert standby[key] == broker[key]


def test_the_standby_and_the_broker_share_the_place() -> None:
    broker, standby, patch = (
        (KUBERNETES / f"{name}.yaml").read_text() for name in ("leveret", "standby", "place-volume")
    )
    (line,) = re.findall(r"command: \[leveret, (.*)\]", standby)
    parsed(line)
    for shared in (
        "{name: LEVERET_SHIP_TO, value: /place}",
        "{name: place, mountPath: /place}",
        "persistentVolumeClaim: {claimName: leveret-place}",
    ):
        assert shared in standby
        assert shared in patch
    for shared in ("{name: data, mountPath: /var/lib/rabbitmq}", "runAsUser: 999", "serviceName: leveret-pods"):
        assert shared in broker
        assert shared in standby


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_patches_the_broker_with_the_volume_of_backups() -> None:
    patch = ["kubectl", "patch", "--local", "--filename", "leveret.yaml", "--patch-file", "backup-volume.yaml"]
    done = subprocess.run([*patch, "--output", "yaml"], cwd=KUBERNETES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "mountPath: /backups" in done.stdout
    assert "claimName: leveret-backups" in done.stdout
    assert "mountPath: /var/lib/rabbitmq" in done.stdout
