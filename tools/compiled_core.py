"""The core of the broker compiled by mypyc: for wheels, and for tests of it (docs/decisions/0042).

`python -m tools.compiled_core DIRECTORY` makes a copy of this checkout with a compiled core: its tests test that.
hatch calls `CompiledCore` where HATCH_BUILD_HOOK_ENABLE_CUSTOM is set, as `make wheel` does. In both the extension
modules lie beside their sources, which Python finds second and shows in tracebacks.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = (
    "broker/wire",
    "broker/entities",
    "broker/session",
    "broker/server/engine.py",
    "broker/server/commits",
    "broker/server/net/client_sockets.py",
    "broker/server/net/prompt_acks.py",
    "broker/server/net/transport.py",
    "broker/server/net/tls_transport.py",
    "storage/batch.py",
    "storage/record_frame.py",
    "storage/journal/journal.py",
    "storage/journal/journal_file.py",
    "storage/journal/journal_payload.py",
    "storage/journal/unapplied_writes.py",
    "storage/messages/key_lookup.py",
    "storage/messages/lane_reader.py",
    "storage/messages/message_segments.py",
    "storage/messages/message_writer.py",
    "storage/messages/small_records.py",
    "storage/messages/store_io.py",
    "broker/testing/event_history.py",
    "broker/testing/faults/faulty_confirms.py",
    "broker/testing/faults/faulty_frames.py",
)
"""Modules on the path of each message from the socket to the journal and back. Those of `broker/testing` derive from
their classes, which only compiled classes can."""
NOT_COPIED = (
    ".git",
    ".venv",
    "build",
    "dist",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "leveret-data",
    "node_modules",
)
INSTALLED = "leveret/_packages"
"""Directory of a wheel for the packages that a checkout has beside `leveret`."""
GROUP = "leveret_core"


class CompiledCore(BuildHookInterface[Any]):
    """Puts the compiled core into a wheel, which is then for one Python on one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatch before it writes the wheel."""
        compiled = Path(self.directory).absolute() / "core"
        shutil.rmtree(compiled, ignore_errors=True)
        for file in compile_core(Path(self.root), compiled, "2"):
            build_data["force_include"][str(compiled / file)] = f"{INSTALLED}/{file}"
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatch when the wheel is written."""
        shutil.rmtree(Path(self.directory).absolute() / "core")


def compile_core(checkout: Path, directory: Path, level: str) -> list[Path]:
    """Compile the core into a directory, at a C compiler's level of optimisation; the files there.

    Ends the process with a sentence when there is no compiler.
    """
    from mypyc.build import mypycify  # not where wheels are built without a compiled core
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class BuildOnAllCores(build_ext):  # type: ignore[misc]  # it comes without types
        """Compiles the sources of an extension side by side: nearly all are those of one."""

        def build_extension(self, ext: Any) -> None:
            def compiled(source: str) -> list[str]:
                objects: list[str] = self.compiler.compile(
                    [source],
                    output_dir=self.build_temp,
                    macros=ext.define_macros,
                    include_dirs=ext.include_dirs,
                    extra_postargs=ext.extra_compile_args,
                )
                return objects

            with ThreadPoolExecutor(os.cpu_count()) as compilers:
                ext.extra_objects = [*chain.from_iterable(compilers.map(compiled, sorted(ext.sources)))]
            ext.sources = []
            super().build_extension(ext)

    _find_compiler()
    with chdir(checkout), TemporaryDirectory() as scratch:
        sources = [path for name in CORE for path in sorted(Path(name).rglob("*.py")) or [Path(name)]]
        options = ["--config-file=pyproject.toml", f"--cache-dir={os.devnull}"]
        modules = mypycify(
            [*options, *map(str, sources)],
            opt_level=level,
            debug_level="0",
            multi_file=True,
            target_dir=scratch,
            group_name=GROUP,
        )
        for module in modules:
            module.extra_compile_args.append("-w")  # a warning about indentation takes minutes
            module.extra_link_args.append("-s")
        command = BuildOnAllCores(Distribution({"name": "leveret", "ext_modules": modules}))
        command.build_lib, command.build_temp, command.parallel = str(directory), scratch, os.cpu_count()
        command.ensure_finalized()
        command.run()
    return [path.relative_to(directory) for path in directory.rglob("*") if path.is_file()]


def _find_compiler() -> None:
    """Make setuptools use the compiler of the tests."""
    sys.path.insert(0, str(Path(__file__).parent.parent))  # hatch loads this file by its path
    from leveret.testing.power.c_compiler import compiler

    command = compiler()
    if not command:
        raise SystemExit("leveret: to compile the core takes a C compiler: install gcc or clang")
    os.environ.setdefault("CC", shlex.join(command))


def main() -> None:
    """Make the copy; one that is there goes."""
    checkout, copy = Path(__file__).parent.parent, Path(sys.argv[1]).absolute()
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    files = compile_core(checkout, copy, "0")  # optimising takes longer than it saves the tests
    print(f"{copy}: the core is compiled, {sum((copy / file).stat().st_size for file in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
