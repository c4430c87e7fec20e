"""How much memory there is for Spark and its workers: that of the container, if it is in one.

A container is a control group of the kernel (cgroup), and groups lie in each other: what a program can have
is the least that any of those around it leaves. The two versions of the kernel's files say the same:

               version 2               version 1
    folder     /sys/fs/cgroup/GROUP    /sys/fs/cgroup/memory/GROUP
    limit      memory.max              memory.limit_in_bytes
    used       memory.current          memory.usage_in_bytes
    idle       inactive_file           total_inactive_file           (in memory.stat)

What is idle, files that nobody uses now, counts as used, and is given back when memory is short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")


class Group(NamedTuple):
    """A group that has a limit, in bytes."""

    limit: int
    used: int

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


def total_memory(root: Path = ROOT) -> int:
    """The bytes that programs here can have, all together."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(group.limit for group in groups(root))])


def available_memory(root: Path = ROOT) -> int:
    """The bytes that programs here can still have."""
    return min([_available_of_machine(root), *(group.left for group in groups(root))])


def _available_of_machine(root: Path) -> int:
    with suppress(OSError):
        for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def groups(root: Path = ROOT) -> Iterator[Group]:
    """The groups around this process that have a limit, the innermost first."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if not controllers:
            top, files = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = Path(name.lstrip("/"))
        # A container sees its own group as the root of all, whatever the name says.
        for each in (own, *own.parents) if own.parts else (own,):
            group = _group(root / top / each, *files)
            if group is not None:
                yield group


def _group(folder: Path, limit: str, used: str, idle: str) -> Group | None:
    """None if it is not there, or has no limit."""
    try:
        most = (folder / limit).read_text().strip()
        if most == "max":
            return None
        stat = dict(
            line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines()
        )
        return Group(int(most), int((folder / used).read_text()) - int(stat.get(idle, 0)))
    except (OSError, ValueError):
        return None
