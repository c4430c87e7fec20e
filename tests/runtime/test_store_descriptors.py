"""A store that is closed keeps no file open: brokers open and close it each time that they try to start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roost.runtime.store import Store, StoreError
from tests.runtime.store_kit import Bench

DESCRIPTORS = Path("/proc/self/fd")


def open_under(folder: Path) -> list[str]:
    """The files of a folder that this process has open."""
    found = []
    for descriptor in DESCRIPTORS.iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue  # that of the listing itself
        if target.startswith(str(folder)):
            found.append(target)
    return sorted(found)


@pytest.mark.skipif(
    not DESCRIPTORS.exists(), reason="this system does not tell which files are open"
)
def test_a_closed_store_keeps_no_file_open(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")
    bench.write({("a",): 1})
    bench.wait_marked()
    assert len(open_under(tmp_path)) > 1  # the database, the log, the mark
    bench.close()
    assert open_under(tmp_path) == []


@pytest.mark.skipif(
    not DESCRIPTORS.exists(), reason="this system does not tell which files are open"
)
def test_nor_does_one_that_is_refused(tmp_path: Path) -> None:
    """Also while somebody still holds the error, and all that it refers to."""
    path = tmp_path / "store"
    path.write_text("[broker]\n" * 2_000)
    with pytest.raises(StoreError) as refusal:
        Store.open(path, on_safe=print)
    assert refusal.tb is not None
    assert open_under(tmp_path) == []
