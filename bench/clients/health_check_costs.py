"""Health checks, asked again and again: CPU time of the check's processes, and of the broker that answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from bench.load.measured_broker import Wanted, own_broker, report
from harness.brokers.http_broker import web_address
from harness.process_figures import cpu_seconds
from harness.project import ROOT

TIMES = 100
METRICS, AMQP, PING = "localhost:15692", "localhost/5672", "leveret ping"
"""Texts of a check that are those of a broker in a container."""


class Check(NamedTuple):
    """A check, as a compose file has it, and the program that runs it."""

    title: str
    command: str
    program: str = "bash"


CHECKS = (
    Check("of the image, by bash: one line of HTTP", (ROOT / "deploy/healthcheck.bash").read_text(encoding="utf-8")),
    Check("`wget -qO- http://localhost:15692/readyz`", "wget -qO- http://localhost:15692/readyz", "wget"),
    Check("`curl -sf http://localhost:15692/readyz`", "curl -sf http://localhost:15692/readyz", "curl"),
    Check("`bash -c 'exec 3<>/dev/tcp/localhost/5672'`: a TCP connection", "exec 3<>/dev/tcp/localhost/5672"),
    Check("`leveret ping`, `rabbitmq-diagnostics -q ping`", PING),
)
ROW = "health check: {}"
"""The name of a check's row."""


def health_checks(wanted: Wanted) -> None:
    """Report milliseconds of CPU for each check; a shell's own start counts."""
    with own_broker(serves_http=True) as broker:
        metrics, amqp = web_address(broker, "metrics")[1], broker.address[1]
        program = f"{sys.executable} -m broker ping --data-dir {broker.data_dir}"
        for check in CHECKS:
            if shutil.which(check.program) is None:
                continue
            here = check.command.replace(PING, program).replace("127.0.0.1/15692", f"127.0.0.1/{metrics}")
            here = here.replace(METRICS, f"localhost:{metrics}").replace(AMQP, f"localhost/{amqp}")
            _report(check, here, broker.pid, max(2, wanted.sized(TIMES)))


def _report(check: Check, command: str, pid: int, times: int) -> None:
    before, broker_before = os.times(), cpu_seconds(pid)
    for _ in range(times):
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    report(
        ROW.format(check.title),
        cpu_ms=round(used / times * 1e3, 1),
        broker_cpu_ms=round((cpu_seconds(pid) - broker_before) / times * 1e3, 1),
        times=times,
    )
