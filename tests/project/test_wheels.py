"""Contents of `pip install`: every file of the packages and nothing else, and a broker that runs without a checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from broker import __version__
from harness.brokers.installed_broker import try_out
from harness.project import ROOT
from tools.compiled_core import CORE
from tools.image_stages import read

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
PLACES = {name: WHEEL["sources"].get(name, name) for name in WHEEL["only-include"]} | WHEEL["force-include"]
"""Packages of the checkout and a file, and where a wheel has them."""

DISCOVERY = Path("leveret_spark", "discovery")
"""Files beside the package in the wheel of the Spark sources, for Spark to find."""


def build(source: Path, directory: Path) -> Path:
    """The wheel of a source tree, made by the build backend as pip has it made, but without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", directory]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def contents(wheel: Path) -> set[str]:
    """Files of a wheel, without what it says of itself."""
    return {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}


def files(name: str) -> set[str]:
    """A file of the checkout, or those of a package but for what a build or Python has left there."""
    found = {path.relative_to(ROOT) for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()}
    here = {path for path in found if "__pycache__" not in path.parts and path.name != "pyproject.toml"}
    return {path.as_posix() for path in here if DISCOVERY not in path.parents}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel."""
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


STAGES = read(ROOT / "Dockerfile", {})
COPIES = [rest for stage in STAGES.values() for instruction, rest in stage.steps if instruction == "COPY"]
COPIED = [re.sub(r"--chown=\S+ ", "", rest).rsplit(" ", 1) for rest in COPIES if "--from" not in rest]
"""Sources and destination of each COPY that takes from the checkout."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with exactly what the stages of the image that build have copied."""
    root = tmp_path_factory.mktemp("image")
    for names, place in COPIED:
        for name in names.split() if place.startswith(("/src/", "/needs/")) else ():
            target = root / place.removeprefix("/")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
    return root


@pytest.fixture(scope="module")
def image_wheel(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the Dockerfile builds with CORE=pure."""
    return build(image / "src", tmp_path_factory.mktemp("wheel"))


def test_the_engine_is_sent_what_the_image_copies_and_nothing_else() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = dict.fromkeys(name.rstrip("/") for names, _ in COPIED for name in names.split())
    assert ignored == [ignored[0], "*", *(f"!{name}" for name in copied), "**/__pycache__"]


def test_the_image_installs_what_is_required(image: Path) -> None:
    command = [sys.executable, "requirements.py", "pyproject.toml", "pipeline"]
    run = subprocess.run(command, cwd=image / "needs", capture_output=True, text=True, check=True)
    project = PROJECT["project"]
    assert run.stdout.splitlines() == [*project["dependencies"], *project["optional-dependencies"]["pipeline"]]


def test_the_image_has_a_compiled_core_and_no_compiler(image: Path) -> None:
    """Docker takes the stage that CORE names: the others are not built."""
    assert (STAGES["wheel"].base, read(ROOT / "Dockerfile", {"CORE": "pure"})["wheel"].base) == ("compiled", "pure")
    assert [name for name, stage in STAGES.items() if "gcc" in str(stage.steps)] == ["compiled"]
    assert "HATCH_BUILD_HOOK_ENABLE_CUSTOM=true pip wheel" in STAGES["compiled"].last("RUN")
    hook = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["path"]
    assert (image / "src" / hook).is_file(), "the hook that compiles is where pyproject.toml says"
    compiled = [name for name in CORE if not (image / "src" / name).exists()]
    assert compiled == [], "all that it compiles is there"


@pytest.mark.slow
def test_the_core_can_be_compiled_from_what_the_image_copies(image: Path) -> None:
    """mypyc begins as mypy does: with a module that is not there, or has other types there, it ends."""
    command = [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", f"--cache-dir={os.devnull}", *CORE]
    run = subprocess.run(command, cwd=image / "src", capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_wheel_has_every_file_of_its_packages_and_no_other(wheel: Path) -> None:
    assert contents(wheel) == {
        name.replace(package, place, 1) for package, place in PLACES.items() for name in files(package)
    }
    beside_code = {"migrations/0001_definitions.sql", "pipeline/spark/log4j2.properties", "config.example.toml"}
    assert {f"leveret/_packages/{name}" for name in beside_code} <= contents(wheel)
    assert {name.partition("/")[0] for name in contents(wheel)} == {
        "leveret",
        "leveret_events",
        "leveret_spark",
        "pytest_leveret",
    }


def test_the_wheel_of_the_spark_sources_has_every_file_and_no_other(tmp_path: Path) -> None:
    built = build(ROOT / "leveret_spark", tmp_path)
    discovery = {path.name for path in (ROOT / DISCOVERY).glob("pyspark_*.py")}
    assert contents(built) == files("leveret_spark") | files("leveret_events") | discovery
    assert built.name.startswith(f"leveret_spark-{__version__}-"), "one version for both"


def requirements(name: str, seen: set[str]) -> Iterator[str]:
    """Distributions that one requires, and those that they require."""
    for line in distribution(name).requires or []:
        needed = Requirement(line)
        required = canonicalize_name(needed.name)
        if required not in seen and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            seen.add(required)
            yield required
            yield from requirements(required, seen)


def install(wheel: Path, environment: Path) -> Path:
    """Install a wheel into a new environment; its programs. Its requirements are linked: this is not a test of pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(command, check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    for name in requirements("leveret", set()):
        required = distribution(name)
        for top in {file.parts[0] for file in required.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(str(required.locate_file(top)))
    return environment / "bin"


@pytest.mark.slow
@pytest.mark.parametrize(("built", "program"), [("wheel", "leveret"), ("image_wheel", "python -m leveret")])
def test_an_installed_broker_keeps_a_message_beside_packages_of_its_packages_names(
    built: str, program: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    programs = install(request.getfixturevalue(built), tmp_path / "environment")
    try_out(programs, program, tmp_path)
    wrong = {"RABBITMQ_NODE_PORT": "x", "LEVERET_ROOT": str(tmp_path)}
    run = subprocess.run([programs / "leveret-container"], env=wrong, capture_output=True, text=True, check=False)
    assert run.stderr == "leveret: error: RABBITMQ_NODE_PORT: expected a port between 0 and 65535, got x\n"
