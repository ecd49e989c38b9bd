"""`python -m tools.try_distributions [--python PYTHON] FILE...`: install each into an empty environment, and try it.

FILE is a wheel or sdist. pip installs it as it does for a user, with what Leveret requires from the package index. Used
by `make dist` and `make wheel`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.brokers.installed_broker import try_out

INSTALLED_BYTES_MAX = 50_000_000
CORE = "import leveret; leveret.use_packages(); from broker.server.start.start_line import CORE; print(CORE)"


def main() -> None:
    """Ends with a traceback at the first distribution that does not work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("files", nargs="+", type=Path)
    wanted = parser.parse_args()
    for file in wanted.files:
        with tempfile.TemporaryDirectory(prefix="leveret-dist-") as scratch:
            _try(file.resolve(), Path(scratch), wanted.python)


def _try(file: Path, scratch: Path, base: str) -> None:
    environment, began = scratch / "environment", time.monotonic()
    subprocess.run([base, "-m", "venv", "--without-pip", environment], check=True)
    before = _bytes(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(file)], check=True)
    installed, seconds = _bytes(environment) - before, time.monotonic() - began
    for command in ("leveret", "python -m leveret"):
        (scratch / command).mkdir()
        try_out(environment / "bin", command, scratch / command)
    core = subprocess.run([python, "-P", "-c", CORE], check=True, capture_output=True, text=True).stdout.strip()
    if core != ("pure" if file.name.endswith(("-none-any.whl", ".tar.gz")) else "compiled"):
        raise SystemExit(f"{file.name}: its core is {core}")
    size = f"{file.stat().st_size / 1e6:.1f} MB, {installed / 1e6:.1f} MB installed in {seconds:.0f} s"
    print(f"{file.name}: works, with a {core} core; {size}")
    if installed > INSTALLED_BYTES_MAX:
        raise SystemExit(f"{file.name}: installs {installed:,} bytes; the limit is {INSTALLED_BYTES_MAX:,}")


def _bytes(directory: Path) -> int:
    """The sizes of all files below a directory."""
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
