"""`python -m tools.try_distributions FILE...`: install each wheel or sdist into an empty environment, and try it.

pip does it as it does for a user, with what Leveret requires from the package index. Used by `make dist`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.brokers.installed_broker import try_out

INSTALLED_BYTES_MAX = 50_000_000


def main() -> None:
    """Ends with a traceback at the first distribution that does not work."""
    for file in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="leveret-dist-") as scratch:
            _try(Path(file).resolve(), Path(scratch))


def _try(file: Path, scratch: Path) -> None:
    environment, began = scratch / "environment", time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    before = _bytes(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(file)], check=True)
    installed, seconds = _bytes(environment) - before, time.monotonic() - began
    for command in ("leveret", "python -m leveret"):
        (scratch / command).mkdir()
        try_out(environment / "bin", command, scratch / command)
    print(f"{file.name}: works; {installed / 1e6:.1f} MB installed in {seconds:.0f} s")
    if installed > INSTALLED_BYTES_MAX:
        raise SystemExit(f"{file.name}: installs {installed:,} bytes; the limit is {INSTALLED_BYTES_MAX:,}")


def _bytes(directory: Path) -> int:
    """The sizes of all files below a directory."""
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
