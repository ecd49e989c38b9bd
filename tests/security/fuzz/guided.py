"""One target under libFuzzer, by `make fuzz`: `python -m tests.security.fuzz.guided TARGET SECONDS FOUND CORPUS...`.

The first directory of the corpus is read and added to, the others are read only. An input that fails is written to
FOUND and ends the process; so does one that takes more than a second of this process's own time, or much memory.
"""

from __future__ import annotations

import sys
import time

import atheris

with atheris.instrument_imports(include=["broker", "storage"], enable_loader_override=False):
    from tests.security.fuzz.target_table import TARGETS

from tests.security.fuzz.choices import Choices

INPUT_BYTES_MAX = 2048
INPUT_SECONDS_MAX = 1.0
HANG_SECONDS = 60
"""Wall-clock seconds: the machine may be busy with something else."""
MEMORY_MEBIBYTES_MAX = 1024
ALLOCATION_MEBIBYTES_MAX = 64


def fuzz(name: str, seconds: int, found: str, corpora: list[str]) -> None:
    """Give a target inputs until the time is over; does not return."""
    with TARGETS[name]() as target:

        def seconds_of(data: bytes) -> float:
            started = time.process_time()
            target(Choices(data))
            return time.process_time() - started

        def one(data: bytes) -> None:
            if seconds_of(data) > INPUT_SECONDS_MAX:
                taken = seconds_of(data)  # the first time it may have imported, and instrumented, modules
                assert taken <= INPUT_SECONDS_MAX, f"took {taken:.1f} s"

        flags = {
            "max_total_time": seconds,
            "max_len": INPUT_BYTES_MAX,
            "timeout": HANG_SECONDS,
            "rss_limit_mb": MEMORY_MEBIBYTES_MAX,
            "malloc_limit_mb": ALLOCATION_MEBIBYTES_MAX,
            "artifact_prefix": found,
            "print_final_stats": 1,
            "reload": 0,
        }
        atheris.Setup([name, *(f"-{flag}={value}" for flag, value in flags.items()), *corpora], one)
        atheris.Fuzz()


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])
