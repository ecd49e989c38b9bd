"""Audit by a standalone cluster of Spark: `python -m bench.pipeline.audit_cluster --events 10000000 --workers 1 2`.

A master and workers of one core each run on this machine, from the same virtual environment. The log is made up, or
that of `--log`, and is written once. For each number of workers: seconds from the command's start to its end, and CPU
seconds and most memory of the driver, the command and its Java (RssAnon). One line of JSON for each. The log takes
2.1 MB for a million events, in the directory of `--directory`, and is removed at the end unless it was given.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from bench.load.measured_broker import mib, report
from bench.pipeline.audit_times import ran
from harness.event_logs.made_up_log import write
from harness.project import ROOT
from pipeline.event_parts import parts_of
from pipeline.jobs.engines import events_in
from pipeline.spark.java import find_java

READY_SECONDS = 180
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def cluster(workers: int, directory: Path) -> Iterator[str]:
    """Run a master and some workers, and yield the master's URL when all are registered. Raises TimeoutError."""
    port, page = free_port(), free_port()
    environment = os.environ | {
        "JAVA_HOME": str(find_java().program.resolve().parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    where = ["--host", "127.0.0.1"]
    master = ["master.Master", *where, "--port", str(port), "--webui-port", str(page)]
    worker = ["worker.Worker", *where, "--cores", "1", "--memory", "2g", "--work-dir", str(directory / "work")]
    commands = [master, *([*worker, "--webui-port", "0", f"spark://127.0.0.1:{port}"] for _ in range(workers))]
    with (directory / "cluster.log").open("w") as log:
        started = [
            subprocess.Popen(
                [str(SPARK_CLASS), f"org.apache.spark.deploy.{command[0]}", *command[1:]],
                env=environment,
                stdout=log,
                stderr=log,
            )
            for command in commands
        ]
        try:
            _wait_for(workers, f"http://127.0.0.1:{page}/json/")
            yield f"spark://127.0.0.1:{port}"
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


def _wait_for(workers: int, page: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError), urllib.request.urlopen(page, timeout=5) as answer:
            if json.load(answer)["aliveworkers"] == workers:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{workers} workers were not registered within {READY_SECONDS} s")


def measure(log: Path, workers: int, directory: Path, conf: list[str]) -> None:
    """Audit a log by a cluster with some workers."""
    events = events_in(parts_of(str(log)))
    settings = [word for setting in conf for word in ("--conf", setting)]
    with cluster(workers, directory) as master:
        out = directory / f"audit-{workers}"
        arguments = ("--from", str(log), "--out", str(out), "--master", master, "--json", *settings)
        found = ran("broker", "pipeline", "audit", *arguments)
    said = json.loads(found.said)
    figures = {"seconds": round(found.seconds, 1), "driver_cpu_s": round(found.cpu, 1)}
    report(
        "audit by a cluster",
        events=events,
        workers=workers,
        **figures,
        driver_mib=mib(found.memory),
        verdicts=said["verdicts"],
        violations=said["violations"],
    )


def main() -> None:
    """Measure each number of workers in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--log", type=Path, help="a directory of segments, in place of made-up ones")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--directory", help="where the log and the results go; TMPDIR otherwise")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-cluster-", dir=options.directory) as directory:
        log = options.log
        if log is None:
            log = Path(directory) / "log"
            log.mkdir()
            write(log, options.events)
        for workers in options.workers:
            measure(log, workers, Path(directory), options.conf)


if __name__ == "__main__":
    main()
