"""What goes wrong in the thread that publishes is told in the one that has asked for it, and adds up."""

from __future__ import annotations

import pytest

from roost.client import Refused
from roost.client.feeding import Feed


def test_refusals_that_nobody_has_asked_for_add_up() -> None:
    async def publish(_: int) -> None:
        pass

    feed = Feed(publish)
    feed.note(Refused("publication P:1", "it may not", events=1))
    feed.note(Refused("publication P:2", "it may not", 2, events=3))
    feed.note(Refused("publication P:9", "no more", events=1))
    with pytest.raises(Refused) as refused:
        feed.raise_trouble()
    assert refused.value.request == "publication P:1"
    assert (refused.value.others, refused.value.events) == (4, 5)
    feed.raise_trouble()  # it has been told
