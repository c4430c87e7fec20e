"""Memory that was freed stays: the process does not fault it in again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from roost.runtime.allocating import keep_freed_memory

# Faults while blocks as large as those of a chunk come and go, all of them at the end of the heap.
FAULTS = """
import resource, sys
from roost.runtime.allocating import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def once():
    blocks = [bytes(bytearray(b"x") * 100_000) for _ in range(20)]
for _ in range(5):
    once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    command = (sys.executable, "-c", FAULTS, how)
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="it is a setting of glibc's allocator"
)
def test_blocks_that_come_and_go_are_not_faulted_in_again() -> None:
    assert faults("kept") * 10 < faults("as it is")


def test_another_allocator_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not keep_freed_memory()
