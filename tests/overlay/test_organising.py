"""Self-organisation in simulated brokers: it counts, decides, has links moved, and measures (002 section 4).

    P - B1 - B0 - B2 - S        B0 relays what B1 says to B2. R = <B0, B2, B1> saves a message of each, and so
            |                   does R = <B0, B1, B2>; but that costs one more of whatever B3 gets from B1
            B3

In most of these tests there are ten messages a second, and a broker trains for two.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from roost.broker.arbiter import Proposal
from roost.broker.errors import RemoteProtocolError
from roost.broker.events import ModuleSwitched, RewiringRequested
from roost.broker.module import Module
from roost.overlay.organising import OverlaySettings
from roost.overlay.organising.notes import read_overlay_note
from roost.overlay.organising.settings import Variant
from tests.overlay.organised import Organised, federation, publisher, publishing, subscriber

STAR = "B0 B1,B0 B2,B0 B3"
UNTIL_S = 20.0
# Ten messages a second, of which B0 sees all: a training takes two seconds.
HURRIED = OverlaySettings(training_messages=20, training_s=4.0, horizon_s=600.0)
VARIANTS: tuple[Variant, ...] = ("roost", "paper", "ocbr", "ocbr-gated")


def star(
    *, others: int = 0, rest_s: float = 0.0, until: float = UNTIL_S, gap_s: float = 0.1
) -> str:
    """B1 publishes, ten messages a second: mostly for B2, and `others` of ten for B3 only."""
    said = federation(STAR, rest_s=rest_s)
    said += [publisher("P", "B1", "x"), publisher("Q", "B1", "y")]
    said += [subscriber("S", "B2", "x"), subscriber("T", "B3", "y")]
    events = [("Q", "y")] * others + [("P", "x")] * (10 - others)
    said += publishing(events, 2.0, until, gap_s)
    return "\n".join([*said, f"{until + 5} end"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_link_that_saves_most_moves_and_the_outcome_is_as_predicted(variant: Variant) -> None:
    """Section 4.4: by topic U(R) is the number of messages saved, here 8 of 18."""
    world = Organised(star(others=2), replace(HURRIED, variant=variant)).until(UNTIL_S)
    first = world.of("rewire")[0]
    assert (first.subject, first.choice, first.acted) == ("B0 - B2", "B1", True)
    evidence = first.evidence
    assert evidence["came_from"] == {"B1": evidence["messages"]}
    assert evidence["went_to"]["B2"] > 2 * evidence["went_to"]["B3"] > 0
    saves = evidence["went_to"]["B2"]
    assert first.predicted["saves"] == evidence["saves_exactly"] == saves
    assert evidence["utility"] == saves  # of OCBR it is what is forwarded
    assert evidence["rewirings"][0]["outcome"] == "chosen"
    (outcome,) = (d for d in world.of("outcome") if d.evidence["decision"] == first.cause)
    assert outcome.predicted == first.predicted
    assert outcome.evidence["measured"]["saves"] == pytest.approx(saves, abs=1)
    assert "B1 - B2" in world.links()
    assert world.checked().clean


def test_by_content_the_paper_is_wrong_where_roost_is_exact() -> None:
    """Section 5: a message of two subscriptions counts twice. Half of what B1 says is for B2 and B3."""
    said = [*federation(STAR), publisher("P", "B1", "x"), publisher("Q", "B1", "y")]
    said += [
        subscriber("S", "B2", "x", "y"),
        subscriber("T", "B3", "y"),
        subscriber("U", "B2", "y"),
    ]
    said += publishing([("P", "x"), ("Q", "y")], 2.0, UNTIL_S, 0.1)
    text = "\n".join([*said, f"{UNTIL_S + 5} end"])
    for variant, exact in (("roost", True), ("paper", False)):
        settings = replace(HURRIED, variant=variant, threshold=-1000.0)
        world = Organised(text, settings).until(10.0)
        first = world.of("rewire")[0]
        assert (first.evidence["utility"] == first.evidence["saves_exactly"]) == exact
        outcomes = [d for d in world.of("outcome") if d.evidence["decision"] == first.cause]
        if exact:
            assert outcomes[0].evidence["measured"]["saves"] == first.predicted["saves"]


# --- training -----------------------------------------------------------------------------------------


def test_a_training_takes_so_many_messages_or_so_long() -> None:
    by_messages = replace(HURRIED, variant="paper", training_messages=30, training_s=0.0)
    world = Organised(star(), by_messages).until(9.0)
    first = world.of("rewire")[0]
    assert 15 <= first.evidence["messages"] <= 30  # the first one is shorter
    by_time = replace(HURRIED, variant="paper", training_messages=0, training_s=2.0)
    world = Organised(star(), by_time).until(9.0)
    first = world.of("rewire")[0]
    assert first.evidence["seconds"] <= 2.0
    assert world.checked().clean


def test_a_burst_is_not_what_traffic_is_like() -> None:
    """Twenty messages within 20 ms are as good as twenty a second."""
    settings = replace(HURRIED, variant="paper")
    world = Organised(star(until=2.02, gap_s=0.001), settings).until(9.0)
    assert all(d.evidence["seconds"] >= 1.0 for d in world.of("stay", "rewire"))


def test_counters_of_all_three_are_reset_and_of_others_not() -> None:
    """Section 4.1: nodes are unlocked, all their counters are reset, and a new training phase begins."""
    text = star(others=5)
    settings = replace(
        HURRIED, training_messages=10_000, training_messages_max=10_000, training_s=0.0
    )
    world = Organised(text, settings).until(8.0)
    before = {name: o._counting.messages for name, o in world.organisers.items()}
    assert all(before.values())
    world.hosts["B0"].notice(RewiringRequested("B1", "B2", "an operator"))
    world.until(9.0)
    after = {name: o._counting.messages for name, o in world.organisers.items()}
    assert all(after[name] < before[name] for name in ("B0", "B1", "B2"))
    assert after["B3"] > before["B3"]


# --- what it may not do -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ({"pinned": ("B0 - B1", "B0 - B2")}, "is pinned"),
        ({"forbidden": ("B1 - B2",)}, "B1 and B2 may not be linked"),
        ({"edges": ("B1", "B2")}, "is an edge-broker, whose link stays"),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_limits_forbid_is_not_done(
    variant: Variant, limit: dict[str, object], why: str
) -> None:
    world = Organised(star(), replace(HURRIED, variant=variant, **limit)).until(12.0)
    assert "B1 - B2" not in world.links()
    options = world.of("stay")[0].evidence["rewirings"]
    assert any(why in option["outcome"] for option in options)
    assert world.checked().clean


def test_no_broker_ever_has_more_neighbours_than_it_may() -> None:
    """A chain of six, whose first talks to all others: with no limit it would be the middle of a star."""
    links = ",".join(f"B{n} B{n + 1}" for n in range(6))
    said = [*federation(links), publisher("P", "B0", "x")]
    said += [subscriber(f"S{n}", f"B{n}", "x") for n in range(1, 7)]
    said += publishing([("P", "x")], 2.0, 60.0, 0.05)
    text = "\n".join([*said, "65 end"])
    for degree_max in (2, 3):
        settings = replace(HURRIED, variant="ocbr", degree_max=degree_max)
        world = Organised(text, settings).until(30.0)
        assert world.degree_max <= degree_max
        assert world.checked().clean
    free = Organised(text, replace(HURRIED, variant="ocbr", degree_max=0)).until(60.0)
    assert free.rewirings > 0
    assert free.degree_max > 3


def test_what_does_not_repay_moving_the_tables_is_left() -> None:
    """As much is saved as before; but with 300 subscriptions at B1 it takes longer than the horizon."""
    many = [f"0.6 subscriber add M{n} B1 class = 'z' and a = {n}" for n in range(300)]
    many.append("0.5 publisher add R - 0 B3 class = 'z' and a >= 0")
    text = star(others=3).replace("2.000 publisher", "\n".join(many) + "\n2.000 publisher", 1)
    short = replace(HURRIED, horizon_s=100.0)
    world = Organised(text, short).until(10.0)
    assert world.rewirings == 0
    stays = world.of("stay")
    assert any("which is not 2 times less" in d.evidence["why"] for d in stays)
    assert Organised(text, replace(short, margin=0.0)).until(10.0).rewirings > 0


def test_what_may_be_chance_is_left() -> None:
    """Of twenty messages over the link to B2, eleven are between it and B1: it is two better there."""
    said = [*federation(STAR), publisher("P", "B1", "x"), publisher("Q", "B3", "y")]
    said += [subscriber("S", "B2", "x", "y")]
    said += publishing([("P", "x"), ("Q", "y")] * 9 + [("P", "x")] * 2, 2.0, 12.0, 0.05)
    text = "\n".join([*said, "15 end"])
    settings = replace(HURRIED, pinned=("B0 - B1", "B0 - B3"))
    world = Organised(text, settings).until(10.0)
    assert world.rewirings == 0
    assert any("may be chance" in d.evidence["why"] for d in world.of("stay"))
    assert Organised(text, replace(settings, variant="paper")).until(10.0).rewirings > 0


# --- other goals --------------------------------------------------------------------------------------


def test_ways_of_deliveries_count_if_they_are_to_be_short() -> None:
    """All that B1 says goes to B2 and B3: nothing is saved, but ways to the three at B2 are shorter."""
    said = [*federation(STAR), "0.0 federation set covering off", publisher("P", "B1", "x")]
    said += [subscriber(f"S{n}", "B2", "x") for n in range(3)] + [subscriber("T", "B3", "x")]
    said += publishing([("P", "x")], 2.0, UNTIL_S, 0.1)
    text = "\n".join([*said, f"{UNTIL_S + 5} end"])
    world = Organised(text, replace(HURRIED, priority="delay")).until(10.0)
    first = world.of("rewire")[0]
    assert (first.subject, first.choice) == ("B0 - B2", "B1")
    assert first.evidence["utility"] == 3 * first.evidence["messages"]
    assert first.evidence["saves_exactly"] == 0
    assert world.checked().clean


@pytest.mark.parametrize("variant", ["roost", "paper"])
def test_a_link_that_is_dear_is_not_made(variant: Variant) -> None:
    """Section 5.2: messages of each link are multiplied by what it costs."""
    dear = replace(HURRIED, variant=variant, prices=("B1 - B2 = 10",))
    world = Organised(star(others=2), dear).until(10.0)
    assert "B1 - B2" not in world.links()
    cheap = replace(HURRIED, variant=variant, prices=("B2--B1=0.5",))
    world = Organised(star(others=2), cheap).until(10.0)
    assert "B1 - B2" in world.links()
    first = world.of("rewire")[0]
    to_b2 = first.evidence["went_to"]["B2"]
    # Each takes one link of 0.5 in place of two of 1.
    assert first.evidence["utility"] == 1.5 * to_b2
    assert first.predicted["saves"] == to_b2


# --- others -------------------------------------------------------------------------------------------


class Never(Module):
    """Objects to whatever is proposed for one link."""

    name = "never"

    def objection_to(self, proposal: Proposal, now: float) -> str:  # noqa: ARG002
        return "it is an edge" if "B0 - B1" in proposal.subjects else ""


def test_others_may_object_and_the_next_best_is_taken() -> None:
    """Open in the paper: what is done if the best pair is locked."""
    world = Organised(star(), HURRIED, others=[Never]).until(UNTIL_S)
    refused = world.of("refused")
    assert refused
    assert refused[0].evidence["why"] == "it is an edge"
    assert refused[0].subject == "B0 - B1"
    carried = world.of("rewire")[0]
    # To move B2 behind B1 saves as much.
    assert (carried.subject, carried.choice) == ("B0 - B2", "B1")
    assert carried.evidence["messages"] == refused[0].evidence["messages"]  # of the same training
    assert "B1 - B2" in world.links()
    assert world.checked().clean


def test_an_anchor_that_only_observes_takes_no_part() -> None:
    text = star() + "\n0.0 federation set load_period_s 10"
    world = Organised(text, HURRIED)
    world.until(1.0)
    for name in ("B1", "B2"):
        world.hosts[name].notice(ModuleSwitched("overlay", "observing"))
    world.until(UNTIL_S)
    assert world.rewirings == 0
    options = [o for d in world.of("stay") for o in d.evidence["rewirings"]]
    assert any(option["outcome"].endswith("only observes") for option in options)
    world.hosts["B2"].notice(ModuleSwitched("overlay", "acting"))
    assert not world.of("refused", "abandoned")


def test_an_anchor_whose_module_is_off_does_not_answer() -> None:
    world = Organised(star(), HURRIED)
    world.until(1.0)
    for name in ("B1", "B2"):
        world.hosts[name].notice(ModuleSwitched("overlay", "off"))
    world.until(UNTIL_S)
    assert world.rewirings == 0
    options = [o for d in world.of("stay") for o in d.evidence["rewirings"]]
    assert any(option["outcome"].endswith("does not answer") for option in options)


def test_it_goes_on_where_it_was_after_it_was_off() -> None:
    world = Organised(star(), HURRIED)
    world.until(1.0)
    for name in ("B0", "B1", "B2", "B3"):
        world.hosts[name].notice(ModuleSwitched("overlay", "off"))
    world.until(8.0)
    assert not world.found
    for name in ("B0", "B1", "B2", "B3"):
        world.hosts[name].notice(ModuleSwitched("overlay", "acting"))
    world.until(UNTIL_S)
    assert "B1 - B2" in world.links()


# --- outcomes, and what is learnt ---------------------------------------------------------------------


def test_nothing_can_be_said_if_the_links_move_on() -> None:
    text = star().replace(f"{UNTIL_S + 5} end", "")
    world = Organised(text, replace(HURRIED, training_messages=60, training_s=0.0))
    while not world.of("carried out"):
        world.until(world.clock.now + 0.1)
    decided = world.of("rewire")[0]
    anchor = decided.choice
    other = "B1" if anchor == "B2" else "B2"
    world.until(world.clock.now + 0.5)
    world.hosts[anchor].notice(
        RewiringRequested(other, "B0", "an operator")
    )  # back to where it was
    world.until(world.clock.now + 1.0)
    (nothing,) = world.of("no outcome")
    assert nothing.evidence["decision"] == decided.cause
    assert f"{other} moved on after" in nothing.evidence["why"]


def test_a_broker_that_finds_nothing_trains_longer_and_a_change_of_traffic_shortens_it() -> None:
    """The future work of section 7: the duration of each phase is found by itself."""
    said = [*federation(STAR), publisher("P", "B0", "x"), publisher("Q", "B1", "y")]
    said += [subscriber("S", "B2", "x"), subscriber("T", "B3", "x"), subscriber("U", "B0", "y")]
    said += publishing([("P", "x")], 2.0, 40.0, 0.02)
    said += publishing([("Q", "y")], 40.0, 80.0, 0.02)
    settings = replace(HURRIED, training_s=0.0)
    world = Organised("\n".join([*said, "90 end"]), settings).until(39.0)
    middle = world.organisers["B0"]
    assert middle._climate.training >= 8 * settings.training_messages
    assert world.rewirings == 0
    world.until(80.0)
    climates = [d.evidence["climate"] for _, b, d in world.found if b == "B0" and d.kind == "stay"]
    lengths = [climate["training"] for climate in climates]
    assert any(after < before for before, after in pairwise(lengths))


def test_what_nobody_says_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="a note of B1 can't be read"):
        read_overlay_note("B1", b"\\x93\\x09\\x01\\x02")
