"""The commands of README and docs run as they stand there, in order, for a reader in an empty directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.newcomer.readme import green_lines
from harness.project import ROOT
from tests.documents.page_commands import JOBS, NEWCOMERS, PAGES, Campaign, NotRun, Page, Reason, RunBy

BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```\w+\n((?:#|//) ([\w./-]+\.\w+)\b.*?)^```$|^ *```sh\n", re.MULTILINE | re.DOTALL)
"""A block whose first line is a comment with the name of a file; or the beginning of one for a shell."""
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLAIN_BLOCK = re.compile(r"^ *```(?:\w+\n(?:.*\n)*?|\n((?:.*\n)*?)) *```$", re.MULTILINE)
COMMAND = re.compile(
    r"^ *(?:leveret|rabbitmq\w+|pip|pytest|npm|node|go|java|make|docker|curl|git|tar) [-\w./]+ ", re.MULTILINE
)
RUN_OF_JOB = re.compile(r"^( *)- run: (?!\|)(.+)\n|^( *)(?:- )?run: \|\n((?:\3 {2,}.*\n)+)", re.MULTILINE)
SCRIPT_OF_JOB = re.compile(r"^( *)script:\n((?:\1 {2}- .*\n)+)", re.MULTILINE)
NOT_RUN_MAX = 35
"""Lines of pages that nothing runs; fewer are better."""
SYSTEM_PYTHON = "/usr/bin/python3"
SYSTEM_YAML = Path("/usr/lib/python3/dist-packages/yaml").is_dir()
OFFLINE = "--disable-pip-version-check --dry-run --no-index --no-deps --no-build-isolation"
"""pip reads the project and its extras, and finds other packages where they are installed; it installs nothing."""
SECONDS = 300
HOSTS = {"127.0.0.2": "rabbit.example.com", "127.0.0.3": "broker.example"}
LOOPBACK_UP = "import fcntl, socket, struct; s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 1))"
"""SIOCSIFFLAGS with IFF_UP: a network of one's own has its loopback down."""


def pages_with_commands() -> dict[str, list[str]]:
    """Return the blocks for a shell by page."""
    pages = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/operations").glob("*.md")),
    ]
    found = {page.relative_to(ROOT).as_posix(): BLOCK.findall(page.read_text(encoding="utf-8")) for page in pages}
    return {page: blocks for page, blocks in found.items() if blocks}


def left_out(page: Page, blocks: list[str]) -> Iterator[tuple[str, Reason]]:
    """Yield the lines of a page that its test does not run, with the reason."""
    for number, block in enumerate(blocks):
        for line in block.splitlines():
            reasons = [reason for beginning, reason in page.skipped.items() if line.strip().startswith(beginning)]
            if number in page.elsewhere:
                reasons = [page.elsewhere[number]]
            if reasons and not re.match(r" *(#|$)", line):
                yield line, reasons[0]


def files_before(text: str) -> dict[int, str]:
    """Return commands by block for a shell that write the files that a page shows before it."""
    found, number = defaultdict[int, str](str), 0
    for content, name in FILE.findall(text):
        if name:
            found[number] += f"cat >{name} <<'END OF FILE'\n{content}END OF FILE\n"
        else:
            number += 1
    return found


def script(page: Page, blocks: list[str], files: Mapping[int, str]) -> str:
    """Return the shell's program: what the reader has before each block, files that the page shows, and the block."""
    lines = ["set -euo pipefail"]
    for number, block in enumerate(blocks):
        if number not in page.elsewhere:
            lines += [page.before.get(number, ""), files.get(number, "")]
            lines += [line for line in block.splitlines() if not line.strip().startswith(tuple(page.skipped) or "\0")]
    text = "\n".join(lines)
    for there, here in page.replaced.items():
        text = text.replace(there, here)
    return f"{text}\n"


def run(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's program in an empty directory, with a network, hosts and processes of its own."""
    home, tools = directory / "home", directory / "tools"
    home.mkdir()
    tools.mkdir()
    for name in ("leveret", "pytest", "celery"):
        (tools / name).symlink_to(Path(sys.executable).with_name(name))
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "pip").write_text(f'#!/bin/sh\n"{sys.executable}" -m pip --quiet "$@" {OFFLINE}\n')
    for name in ("python", "pip"):
        (tools / name).chmod(0o755)
    (home / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
    (directory / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for ip, name in HOSTS.items()))
    (directory / "passwords").write_text("secret\n" * 20_000)
    (directory / "page.sh").write_text(program)
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    begin = f'mount --bind ../hosts /etc/hosts; python -c "{LOOPBACK_UP}"; exec bash ../page.sh'
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    with (directory / "passwords").open() as passwords:
        return subprocess.run(
            ["unshare", *users, *namespaces, "sh", "-ec", begin],
            cwd=home,
            env=environment,
            stdin=passwords,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def test_every_page_with_commands_is_known() -> None:
    assert set(pages_with_commands()) == {*PAGES}


def test_commands_are_in_blocks_for_a_shell() -> None:
    """Blocks of another kind are not run: output, and text to be read."""
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages_with_commands()}
    plain = {page: [text for text in PLAIN_BLOCK.findall(text) if COMMAND.search(text)] for page, text in pages.items()}
    assert {page: [*texts] for page, texts in plain.items() if texts} == {}


def test_the_list_of_lines_that_are_left_out_is_true() -> None:
    found = pages_with_commands()
    stale = [
        (name, beginning)
        for name, page in PAGES.items()
        for beginning in page.skipped
        if not any(line.strip().startswith(beginning) for block in found[name] for line in block.splitlines())
    ]
    stale += [(name, block) for name, page in PAGES.items() for block in page.elsewhere if block >= len(found[name])]
    stale += [
        (name, text)
        for name, page in PAGES.items()
        for text in page.replaced
        if not any(text in block for block in found[name])
    ]
    assert stale == []


def reasons() -> list[tuple[str, str, Reason]]:
    """Return all lines that are left out, by page, with the reason."""
    found = pages_with_commands()
    return [(name, line, reason) for name, page in PAGES.items() for line, reason in left_out(page, found[name])]


def test_who_is_said_to_run_a_line_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for reason in {reason for _, _, reason in reasons()}:
        if isinstance(reason, RunBy):
            file, _, name = reason.test.partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
        elif isinstance(reason, Campaign):
            assert f"\n{reason.target}:" in makefile


def test_nearly_every_line_is_run() -> None:
    lines = [(name, line) for name, line, reason in reasons() if isinstance(reason, NotRun)]
    assert len(lines) <= NOT_RUN_MAX, lines


def test_lines_that_newcomers_run_are_those_of_the_readme() -> None:
    run = {line for lines in green_lines(ROOT / "README.md").values() for line in lines.splitlines()}
    assert {line for _, line, reason in reasons() if reason == NEWCOMERS} <= run


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if len(page.elsewhere) < len(pages_with_commands()[name])]
)
def test_the_commands_of_a_page_run(name: str, tmp_path: Path) -> None:
    files = files_before((ROOT / name).read_text(encoding="utf-8"))
    found = run(tmp_path, script(PAGES[name], pages_with_commands()[name], files))
    assert found.returncode == 0, f"{found.stdout[-1500:]}\n{found.stderr[-3000:]}"


def scripts_of_jobs() -> list[str]:
    """Return the commands of each job of docs/ci.md: steps with `run`, each in a shell of its own, or a `script`."""
    found = []
    for block in YAML.findall((ROOT / "docs/ci.md").read_text(encoding="utf-8")):
        steps = [line or lines for _, line, _, lines in RUN_OF_JOB.findall(block)]
        steps += [re.sub(r"^ *- ", "", lines, flags=re.MULTILINE) for _, lines in SCRIPT_OF_JOB.findall(block)]
        found.append("\n".join(f"(\n{textwrap.dedent(step)}\n)" for step in steps))
    return found


@pytest.mark.slow
def test_the_jobs_for_ci_run(tmp_path: Path) -> None:
    jobs = scripts_of_jobs()
    assert len(jobs) == 4
    program = script(JOBS, jobs, {})
    assert program.count("make test") == 2, program
    found = run(tmp_path, program)
    assert found.returncode == 0, f"{program}\n{found.stdout[-1500:]}\n{found.stderr[-3000:]}"
    assert found.stdout.count("\none\n") == 2, found.stdout


@pytest.mark.skipif(not SYSTEM_YAML, reason="needs a Python with yaml: Debian's python3-yaml")
def test_yaml_of_pages_can_be_read() -> None:
    blocks = [
        block for page in (ROOT / "docs").rglob("*.md") for block in YAML.findall(page.read_text(encoding="utf-8"))
    ]
    program = "import json, sys, yaml; print(json.dumps([yaml.safe_load(text) for text in json.load(sys.stdin)]))"
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", program], input=json.dumps(blocks), capture_output=True, text=True, check=True
    )
    read = json.loads(done.stdout)
    assert all(isinstance(found, dict) for found in read)
    before, after = (found["services"] for found in read if "services" in found)
    changed = {key for key, value in before["rabbitmq"].items() if value != after["rabbitmq"].get(key)}
    assert changed == {"image", "volumes", "healthcheck"}
    assert before["worker"] == after["worker"]
    jobs = [job for found in read if "jobs" in found for job in found["jobs"].values()]
    assert all(step.keys() & {"uses", "run"} for job in jobs for step in job["steps"])
