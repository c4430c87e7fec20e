"""A write-ahead log of which no more than the header is there: a crash explains whatever it says."""

from __future__ import annotations

import pytest

from roost.runtime.store_wal import wal_damage

HEADER_SIZE = 32


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_a_header_without_frames_is_no_damage(byte: bytes) -> None:
    """Frames are written once it is safe, so nothing was committed."""
    for size in range(HEADER_SIZE + 1):
        assert not wal_damage(size * byte), size
    assert wal_damage((HEADER_SIZE + 1) * byte) == "its header is damaged"
