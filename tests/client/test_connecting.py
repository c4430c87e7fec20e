"""What `connect` says of its arguments before anything is dialled."""

from __future__ import annotations

import pytest

from roost.client import connect, connect_sync
from tests.client.support import in_loop


@pytest.mark.parametrize("name", ["n" * 257, "two\nlines", "a bell\a"])
def test_names_that_can_not_be(name: str) -> None:
    for way in (connect, connect_sync):
        with pytest.raises(ValueError, match="expected at most 256 visible characters"):
            way("memory://", name=name)


@in_loop
async def test_the_longest_name() -> None:
    async with connect("memory://", name="n" * 256) as client:
        assert client.name.startswith("n" * 256)
