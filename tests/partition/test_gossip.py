"""Gossip and accrual failure detection (004 section III.C), with every draw and every second given."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest

from roost.experiments.partition.cell import cell
from roost.partition import notes
from roost.partition.accrual import AccrualSettings, Detector
from roost.partition.gossip import AROUND, Digest, Gossip, around


def test_the_papers_seconds_are_cassandras_threshold() -> None:
    """IV.E: a crash is noticed after 17.5 s; phi of exponential intervals of a second is 8 after 18.4 s."""
    detector = Detector(AccrualSettings(model="exponential"), 0.0)
    for second in range(1, 60):
        detector.beat(float(second))
    silent = next(s / 10 for s in range(1, 400) if detector.suspects(59 + s / 10))
    assert silent == pytest.approx(8 * math.log(10), abs=0.1)


def test_regular_heartbeats_are_missed_sooner() -> None:
    detector = Detector(AccrualSettings(), 0.0)
    random = Random(1)
    now = 0.0
    worst = 0.0
    for _ in range(500):
        now += 1.0 + random.uniform(-0.3, 0.6)
        worst = max(worst, detector.phi(now))
        detector.beat(now)
    assert worst < 4.0  # nobody was suspected meanwhile
    silent = next(s / 10 for s in range(1, 400) if detector.suspects(now + s / 10))
    assert silent < 3.5


def test_phi_grows_with_silence_and_stays_finite() -> None:
    detector = Detector(AccrualSettings(), 0.0)
    phis = [detector.phi(t / 4) for t in range(1, 400)]
    assert phis == sorted(phis)
    assert math.isfinite(phis[-1])


class Circle:
    """Matchers that gossip in rounds of a second."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.random = Random(seed)
        self.all = {f"M{n}": Gossip(f"M{n}", 1, 0.0) for n in range(count)}
        self.stamps = dict.fromkeys(self.all, (1, ""))
        self.down: set[str] = set()
        self.now = 0.0
        self.bytes = 0

    def round(self) -> None:
        self.now += 1.0
        for name, gossip in self.all.items():
            if name in self.down:
                continue
            gossip.tick()
            watched = around(name, self.all)
            for partner in gossip.partners(list(self.all), watched, self.random.random):
                if partner not in self.down:
                    digest = gossip.digest({"": self.stamps[name]}, watched)
                    self.bytes += len(notes.encode(digest))
                    self.all[partner].hear(digest, self.now)
                    newer = max(self.stamps[name], self.stamps[partner])
                    self.stamps[name] = self.stamps[partner] = newer


def test_a_change_is_everywhere_after_about_log_n_rounds() -> None:
    """III.C: log N rounds; with log N partners a round it takes fewer."""
    rounds = []
    for seed in range(10):
        circle = Circle(32, seed)
        circle.stamps["M5"] = (2, "D")
        count = 0
        while set(circle.stamps.values()) != {(2, "D")}:
            circle.round()
            count += 1
        rounds.append(count)
    assert max(rounds) <= 5


def test_who_is_gone_is_suspected_within_five_seconds_and_nobody_else_is() -> None:
    """One that is sure is enough for a dispatcher; all are, soon after."""
    circle = Circle(20)
    for _ in range(60):
        circle.round()
        assert not any(g.suspects(circle.all, circle.now) for g in circle.all.values())
    circle.down = {"M3", "M7", "M8"}
    for _ in range(5):
        circle.round()
    there = [gossip for name, gossip in circle.all.items() if name not in circle.down]
    assert {s for gossip in there for s in gossip.suspects(circle.all, circle.now)} == circle.down
    for _ in range(3):
        circle.round()
    assert all(set(g.suspects(circle.all, circle.now)) == circle.down for g in there)


def test_who_comes_back_has_a_later_life() -> None:
    circle = Circle(4)
    for _ in range(20):
        circle.round()
    circle.all["M1"] = Gossip("M1", 2, circle.now)
    for _ in range(5):
        circle.round()
    assert circle.all["M0"].beats["M1"][0] == 2
    # What somebody still says of its earlier life does not count.
    circle.all["M0"].hear(Digest({"": (1, "")}, {"M1": (1, 999)}), circle.now)
    assert circle.all["M0"].beats["M1"][0] == 2


def test_partners_are_log_n_of_the_others() -> None:
    gossip = Gossip("M0", 1, 0.0)
    draw = Random(0).random
    assert gossip.partners(["M0"], [], draw) == []
    assert gossip.partners(["M0", "M1"], ["M1"], draw) == ["M1"]
    names = [f"M{n}" for n in range(20)]
    for _ in range(20):
        chosen = gossip.partners(names, around("M0", names), draw)
        assert len(chosen) == len(set(chosen)) == 4
        assert "M0" not in chosen


def test_among_many_one_hears_of_those_around_it_and_all_are_watched() -> None:
    """What a matcher says does not grow with their number, and still nobody is gone unnoticed."""
    circle = Circle(200)
    names = list(circle.all)
    watchers = Counter(other for name in names for other in around(name, names))
    assert set(watchers.values()) == {AROUND}
    circle.stamps["M5"] = (2, "D")
    for _ in range(12):
        circle.round()
    assert set(circle.stamps.values()) == {(2, "D")}
    assert circle.bytes / 200 / 12 < 7_000
    watched = {name: around(name, names) for name in names}
    assert not any(g.suspects(watched[name], circle.now) for name, g in circle.all.items())
    circle.down = {"M7", "M8", "M9", "M150"}
    for _ in range(6):
        circle.round()
    there = {name: g for name, g in circle.all.items() if name not in circle.down}
    seen = {s for name, g in there.items() for s in g.suspects(watched[name], circle.now)}
    assert seen == circle.down


def test_what_a_service_says_to_itself() -> None:
    """IV.C: 2.9 kB a second and matcher there, and no more than 3 here."""
    alone = cell({"what": "traffic", "matchers": 20}, 1)
    loaded = cell(
        {
            "what": "simulated_traffic",
            "matchers": 4,
            "subscriptions": 100,
            "best_per_s": 50,
            "lasts_s": 4,
        },
        1,
    )
    assert 0 < float(alone["gossip_bytes_per_s"] or 0) < 3_000
    assert float(alone["step_bytes"] or 0) < float(alone["table_bytes"] or 0) / 5
    for part in ("gossip", "reports"):
        assert 0 < float(loaded[f"{part}_bytes_per_s"] or 0) < 1_000
    assert float(loaded["total"] or 0) < 3_000
