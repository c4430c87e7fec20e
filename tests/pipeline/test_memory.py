"""Memory is that of the container: files of both versions of the kernel's control groups."""

from __future__ import annotations

import os
from pathlib import Path

from roost.pipeline.memory import Group, available_memory, groups, total_memory

GB = 1 << 30
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def system(root: Path, groups_of: str, files: dict[str, str], available_kb: int = 1 << 40) -> Path:
    """A /proc and a /sys."""
    told = {
        "proc/self/cgroup": groups_of,
        "proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {available_kb} kB\n",
    }
    for name, text in {**told, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def group(folder: str, limit: str, used: int, idle: int) -> dict[str, str]:
    """Of version 2."""
    return {
        f"sys/fs/cgroup/{folder}/memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{folder}/memory.current": f"{used}\n",
        f"sys/fs/cgroup/{folder}/memory.stat": f"anon 1\ninactive_file {idle}\n",
    }


def test_the_least_of_the_groups_around_counts(tmp_path: Path) -> None:
    files = group("outer/own", "max", 5, 0) | group("outer", str(GB), 3 * GB // 4, GB // 4)
    root = system(tmp_path, "0::/outer/own\n", files)
    assert list(groups(root)) == [Group(GB, GB // 2)]
    assert total_memory(root) == GB
    assert available_memory(root) == GB // 2


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    root = system(tmp_path, "0::/\n", group("", str(GB), GB, 0))
    assert (total_memory(root), available_memory(root)) == (GB, 0)
    # And one whose name is that outside of it, where there is no such folder.
    outside = system(tmp_path / "other", "0::/docker/17\n", group("", str(GB), 0, 0))
    assert total_memory(outside) == GB


def test_the_older_version(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/memory/own"
    files = {
        f"{folder}/memory.limit_in_bytes": str(2 * GB),
        f"{folder}/memory.usage_in_bytes": str(GB),
        f"{folder}/memory.stat": f"inactive_file 7\ntotal_inactive_file {GB // 2}\n",
    }
    root = system(tmp_path, "5:cpu,cpuacct:/x\n4:memory:/own\n0::/\n", files)
    assert (total_memory(root), available_memory(root)) == (2 * GB, 3 * GB // 2)


def test_without_a_limit_it_is_that_of_the_machine(tmp_path: Path) -> None:
    root = system(tmp_path, "0::/own\n", group("own", "max", 0, 0), available_kb=1_000)
    assert (total_memory(root), available_memory(root)) == (MACHINE, 1_024_000)
    assert total_memory(tmp_path / "nothing") == MACHINE
    # One that says 2^63, which is how the older version has none.
    huge = system(tmp_path / "huge", "0::/own\n", group("own", str(2**63 - 4096), 0, 0))
    assert total_memory(huge) == MACHINE
    assert 0 < available_memory() <= total_memory() <= MACHINE
