"""What goes wrong, when and to whom: drawn from a seed, so that a run can be had again.

Brokers and wires suffer one after the other; clients come, go and are killed meanwhile (`acts_of`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from roost.bench.chaos.interests import KINDS, Interest
from roost.errors import UserError

Fault = Literal["kill", "stop", "cut", "hole", "delay", "fill", "restore"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
# How often, unless it is said otherwise.
USUAL: dict[Fault, int] = {
    "kill": 50,
    "stop": 5,
    "cut": 16,
    "hole": 6,
    "delay": 4,
    "fill": 5,
    "restore": 2,
}

# Seconds. Of stops and full disks every fifth is a long one, of kills every seventh. Whoever subscribes amid
# a long one is in place before it is over, by the time of grace (`broker.absence`).
LONG_EVERY, LONG_KILL_EVERY = 5, 7
DOWN_S, LONG_DOWN_S = (0.0, 1.5), 12.0
STOP_S, LONG_STOP_S = (2.0, 8.0), 30.0
FILL_S, LONG_FILL_S = (1.0, 5.0), 90.0
DELAYED_S, DELAY_S = (2.0, 6.0), (0.02, 0.1)
OLD_S = (0.5, 3.0)  # how old a backup is
# In times of what it takes to notice: shorter ones and longer ones.
HOLE = (0.3, 3.0)
# How long all is left in peace before the next fault.
PEACE_S = (0.2, 1.0)


class Round(Struct, frozen=True):
    """One fault: it begins, lasts, and is over; then everything recovers, and there is peace for a while."""

    fault: Fault
    place: str  # a broker or a wire
    lasts_s: float
    peace_s: float
    how: str = ""  # which way a hole swallows; how a connection is cut
    delay_s: float = 0.0


def counts_of(text: str) -> dict[Fault, int]:
    """Which faults, and how often: "kill=3,cut"; "" for all as usual.

    >>> counts_of("kill=3,cut")
    {'kill': 3, 'cut': 16}
    """
    if not text:
        return dict(USUAL)
    counts: dict[Fault, int] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        fault = next((fault for fault in FAULTS if fault == name), None)
        if fault is None or (equals and not number.isdecimal()):
            raise UserError(
                f"--faults: {part.strip()!r}; expected some of {', '.join(FAULTS)}, with how often: kill=3"
            )
        counts[fault] = int(number) if equals else USUAL[fault]
    return counts


def rounds_of(
    seed: int,
    brokers: Sequence[str],
    links: Sequence[str],
    doors: Sequence[str],
    counts: Mapping[Fault, int],
    *,
    dead_after_s: float,
) -> list[Round]:
    """So many of each fault, in any order. Every place has its share of each kind."""
    draw = random.Random(seed)
    places: dict[Fault, Sequence[str]] = {"cut": [*links, *doors], "hole": [*links, *doors]}
    places["delay"] = links
    rounds = []
    for fault in FAULTS:
        there = places.get(fault, brokers)
        for number in range(counts.get(fault, 0)):
            is_long = number % LONG_EVERY == LONG_EVERY - 1
            is_long_kill = number % LONG_KILL_EVERY == LONG_KILL_EVERY - 1
            lasts_s = {
                "kill": LONG_DOWN_S if is_long_kill else draw.uniform(*DOWN_S),
                "stop": LONG_STOP_S if is_long else draw.uniform(*STOP_S),
                "cut": 0.0,
                "hole": dead_after_s * draw.uniform(*HOLE),
                "delay": draw.uniform(*DELAYED_S),
                "fill": LONG_FILL_S if is_long else draw.uniform(*FILL_S),
                "restore": draw.uniform(*OLD_S),
            }[fault]
            hows = {"cut": ["reset", "end"], "hole": ["both", "up", "down"]}.get(fault, [""])
            # Places in an order of their own for each fault, else the first ones have most of all.
            place = there[(number + seed + FAULTS.index(fault)) % len(there)]
            delay_s = draw.uniform(*DELAY_S) if fault == "delay" else 0.0
            peace_s = draw.uniform(*PEACE_S)
            rounds.append(Round(fault, place, lasts_s, peace_s, draw.choice(hows), delay_s))
    draw.shuffle(rounds)
    return rounds


# --- clients ----------------------------------------------------------------------------------------

Deed = Literal["publish", "subscribe", "end", "kill"]
DEEDS: Mapping[Deed, int] = {"publish": 5, "subscribe": 4, "end": 3, "kill": 2}
BETWEEN_S = (0.2, 1.4)
CLASSES = ("A", "B", "C")


class Act(Struct, frozen=True):
    """Something that clients do, after a while. Who ends or is killed is a number, counted in a circle."""

    after_s: float
    deed: Deed
    broker: str
    class_: str
    interest: Interest
    whom: int
    rate: float  # events a second, and how many
    events: int
    advertises: bool
    is_durable: bool
    away_s: float  # how long one who was killed stays away


def acts_of(seed: int, brokers: Sequence[str]) -> Iterator[Act]:
    """What clients do, without end."""
    draw = random.Random(f"clients {seed}")
    deeds = [deed for deed, times in DEEDS.items() for _ in range(times)]
    while True:
        yield Act(
            after_s=draw.uniform(*BETWEEN_S),
            deed=draw.choice(deeds),
            broker=draw.choice(brokers),
            class_=draw.choice(CLASSES),
            interest=Interest(draw.choice(CLASSES), draw.choice((KINDS, 2, 1))),
            whom=draw.randrange(1_000),
            rate=draw.uniform(10, 60),
            events=draw.randrange(50, 600),
            advertises=draw.random() < 0.5,
            is_durable=draw.random() < 0.6,
            away_s=draw.uniform(0.0, 3.0),
        )
