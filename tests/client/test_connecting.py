"""What `connect` says of its arguments before anything is dialled."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from roost.client import connect, connect_sync
from roost.client.options import Options
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"keepalive_s": -0.5}, "keepalive_s is -0.5; expected 0 or more"),
        ({"pending_max": 0}, "pending_max is 0; expected 1 or more"),
        ({"pending_bytes_max": 0}, "pending_bytes_max is 0; expected 1 or more"),
    ],
)
def test_numbers_that_can_not_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        connect("memory://", **wrong)


@in_loop
async def test_the_least_numbers_that_can_be() -> None:
    async with connect("memory://", keepalive_s=0, pending_max=1, pending_bytes_max=1) as client:
        for n in range(3):
            await client.publish({"n": n})
        await client.flush()


def test_whichever_way_what_is_not_said_is_the_same() -> None:
    one, other = (
        {name: parameter.default for name, parameter in inspect.signature(way).parameters.items()}
        for way in (connect, connect_sync)
    )
    assert one == other
    options = Options()
    for name in set(Options.__struct_fields__) - {"name"}:
        assert getattr(options, name) == one[name], name
