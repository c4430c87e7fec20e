"""What a rewiring costs in messages between brokers, against what decisions take it to cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from roost.broker.channel import Lane
from roost.broker.messages import Delivery, Message, Publication
from roost.overlay.organising import OverlaySettings
from roost.overlay.organising.deciding import BY_ADVERTISEMENT, BY_MOVER, BY_OTHERS
from roost.overlay.organising.settings import MESSAGES
from tests.overlay.organised import Organised, federation, publisher, publishing, subscriber

LINKS = "B0 B1,B0 B2,B0 B3"
SETTINGS = OverlaySettings(
    variant="paper", training_messages=20, training_s=0.0, pinned=("B0 - B1", "B0 - B3")
)


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Message]]:
    said: list[Message] = []
    push = Lane.push

    def counted(self: Lane, message: Message, *more: Any) -> Any:
        if not isinstance(message, Publication | Delivery):
            said.append(message)
        return push(self, message, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Lane, "push", counted)
        yield said


def cost(
    monkeypatch: pytest.MonkeyPatch, at_mover: int, elsewhere: int, advertised: int = 0
) -> int:
    """Of moving B2 behind B1, where it subscribes to so many topics and B3 to others; B0 advertises."""
    said = [*federation(LINKS), publisher("P", "B1", "x"), subscriber("S", "B2", "x")]
    said += [publisher("Q", "B0", "y")]
    said += [f"0.6 subscriber add M{n} B2 class = 'y' and a = {n}" for n in range(at_mover)]
    said += [f"0.6 subscriber add N{n} B3 class = 'x' and a = {n}" for n in range(elsewhere)]
    said += [publisher(f"R{n}", "B0", f"z{n}") for n in range(advertised)]
    said += publishing([("P", "x")], 4.0, 10.0, 0.1)
    world = Organised("\n".join([*said, "12 end"]), replace(SETTINGS))
    world.until(3.9)  # everything has settled
    with counting(monkeypatch) as messages:
        world.until(10.0)
    assert world.rewirings == 1
    return len(messages)


def test_a_rewiring_costs_about_what_decisions_take_it_to_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = cost(monkeypatch, 0, 0)
    assert 0.5 * MESSAGES < few < 1.25 * MESSAGES
    by_mover = (cost(monkeypatch, 20, 0) - few) / 20
    by_others = (cost(monkeypatch, 0, 20) - few) / 20
    assert by_mover <= BY_MOVER
    by_advertisement = (cost(monkeypatch, 0, 0, 20) - few) / 20
    assert by_others <= BY_OTHERS
    assert by_advertisement <= BY_ADVERTISEMENT
    print(f"{few} messages, {by_mover:g} a subscription of the mover's, {by_others:g} of others',")
    print(f"{by_advertisement:g} an advertisement")
