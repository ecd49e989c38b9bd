"""Figures of the process's control group, read from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.admin.node.process_facts import container_bytes


@pytest.mark.parametrize(
    ("memberships", "files", "expected"),
    [
        ("0::/\n", {"memory.current": "500\n", "memory.stat": "anon 9\ninactive_file 200\n"}, 300),
        ("0::/a/b\n", {"a/b/memory.current": "500\n", "a/b/memory.stat": "inactive_file 200\n"}, 300),
        ("0::/not/seen\n", {"memory.current": "500\n", "memory.stat": "inactive_file 1\n"}, 499),
        (
            "4:memory:/x\n0::/\n",
            {"memory/x/memory.usage_in_bytes": "500\n", "memory/x/memory.stat": "total_inactive_file 2\n"},
            498,
        ),
        ("0::/\n", {}, None),  # the root of a whole machine has no such file
        ("", {}, None),
    ],
)
def test_a_container_s_memory_is_that_of_docker_stats(
    tmp_path: Path, memberships: str, files: dict[str, str], expected: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(memberships)
    assert container_bytes(tmp_path / "own", tmp_path) == expected
