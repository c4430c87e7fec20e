"""A publisher moves, and at each step of that something happens: it ends well, at one place or at the other.

*Well* is what `Journey.check` says: the publisher is wholly at the source or wholly at the target, no broker
expects anything, the tables are those that follow from where clients are, and no event is lost, doubled or
reordered, whatever was published before, meanwhile and after.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker import events as ev
from roost.broker.messages import HandOver, Migrated, Paused, Subscribe
from tests.broker.journey import (
    MOVE_S,
    NOTHING,
    PART,
    PATH,
    PATH_LINKS,
    SOURCE,
    TARGET,
    Incident,
    Journey,
    at_every_step,
    crash,
    cut,
    disappear,
    hold,
    leave,
    part,
    redirect,
    request,
    restart,
    stall,
    vanish,
)
from tests.broker.kit import Federation

# --- the cast ---------------------------------------------------------------------------------------


def plain(federation: Federation) -> None:
    federation.advertise("P", "a > 0")


def several(federation: Federation) -> None:
    """One is wider, one the same, and one of something else."""
    plain(federation)
    federation.advertise("P", "a > -5")
    federation.advertise("P", "a > 0", "again")
    federation.advertise("P", "b > 0")


def both(federation: Federation) -> None:
    """It also subscribes, to itself and to somebody else."""
    plain(federation)
    federation.advertise("P", "b > 0")
    federation.subscribe("P", "a > 0")
    federation.client("Q", "B7", ack_delay_s=0.05)
    federation.advertise("Q", "a > 0")


def covered(federation: Federation) -> None:
    """What somebody else advertises covers it: beyond the next broker nobody has heard of it."""
    plain(federation)
    federation.client("Q", "B5", ack_delay_s=0.05)
    federation.advertise("Q", "a > -5")


CASTS: dict[str, tuple[Callable[[Federation], None], dict[str, Any]]] = {
    "publishes and subscribes": (both, {}),
    "plain": (plain, {}),
    "several advertisements": (several, {}),
    "no covering": (both, {"covering": False}),
    "advertisements covered": (covered, {"advertisement_covering": True}),
    "flooding": (both, {"routing": "flooding"}),
}
MAIN, *OTHERS = CASTS
# In these nothing migrates: the advertisements are made anew.
ANEW = ("advertisements covered", "flooding")


def journey(cast: str = MAIN, *, durable: bool = False, linger_s: float = 60.0) -> Journey:
    """P at B1, subscribers on both sides of the path and on it. Acknowledgements take their time."""
    play, config = CASTS[cast]
    federation = Federation(*PART, ack_delay_s=0.05, durable=durable, linger_s=linger_s, **config)
    federation.client("P", SOURCE, ack_delay_s=0.05)
    play(federation)
    for broker in ("B2", "B5", "B7"):
        federation.client(f"S{broker}", broker, ack_delay_s=0.05)
        federation.subscribe(f"S{broker}", "a > 0")
    federation.subscribe("SB7", "b > 0")
    return Journey(federation, "P")


@pytest.mark.parametrize("cast", CASTS)
def test_undisturbed_it_arrives(cast: str) -> None:
    play = journey(cast)
    assert not play.go("never", NOTHING)
    assert play.client.address == TARGET
    migrated = bool(play.federation.between(TARGET, "P", Migrated))
    assert migrated == (cast not in ANEW)
    hands_over = bool(play.federation.between("P", SOURCE, HandOver))
    assert hands_over == (cast not in ("plain", "several advertisements"))


# --- every incident at every step -------------------------------------------------------------------

STEPS = (
    "Redirect B1-P",
    "Settle P-B6",
    "Settled B6-P",
    "Migrate P-B6",
    "MigrationUpdate B6-B5",
    "MigrationUpdate B5-B1",
    "PausePlease B1-P",
    "Paused P-B1",
    "MigrationComplete B1-B5",
    "MigrationComplete B5-B6",
    "Migrated B6-P",
    "HandOver P-B1",
    "SessionEnded B1-P",
)


def test_these_are_the_steps() -> None:
    play = journey()
    play.go("never", NOTHING)
    assert tuple(play.steps) == STEPS


class Interruption(NamedTuple):
    """An incident, and what the federation is like."""

    incident: Incident
    durable: bool = False
    linger_s: float = 60.0

    def journey(self, cast: str = MAIN) -> Journey:
        return journey(cast, durable=self.durable, linger_s=self.linger_s)


def unadvertise(*names: str) -> Incident:
    """Events, and at once the withdrawal of what they need."""

    def strike(journey: Journey) -> None:
        for _ in range(2):
            journey.publish("b")
        for name in journey.client.advertisements().keys() & set(names):
            journey.federation.unadvertise("P", name)

    return Incident(strike)


def gone(journey: Journey) -> None:
    """Nothing of P is left, wherever it was."""
    journey.federation.advance(100.0)  # nobody waits longer than that
    for broker in journey.federation.brokers.values():
        advertisers = {e.id.partition("/")[0] for e in broker.router.advertisements.values()}
        assert "P" not in advertisers
        assert "P" not in {session.client for session in broker.sessions.values()}
        assert broker.router.expected_entries == 0


def back_after_all(journey: Journey) -> None:
    """Long after it was given up."""
    gone(journey)
    journey.federation.severed.clear()


CRASHES = {
    f"{broker} {how} {'with' if keep_store else 'without'} its store": Interruption(
        do(broker, keep_store=keep_store), durable=keep_store
    )
    for broker in PATH
    for how, do, keep_store in (
        ("crashes", crash, True),
        ("crashes", crash, False),
        ("restarts", restart, False),  # at once: others may hear of it late
    )
}
CUTS = {
    f"{a}-{b} is cut for {away_s:g} s": Interruption(cut(a, b, away_s=away_s))
    for a, b in (*PATH_LINKS, ("P", "B1"), ("P", "B6"))
    for away_s in (3.0, 40.0)  # for less than a move may take, and for more
}
ABSENCES = {
    "P disappears and returns": Interruption(vanish(away_s=20.0)),
    "P disappears until it is forgotten": Interruption(
        vanish(away_s=30.0, loses=True), linger_s=10.0
    ),
    "P disappears for good": Interruption(Incident(disappear, back_after_all, loses=True)),
    "P leaves": Interruption(Incident(leave, gone)),
}
DELAYS = {
    **{
        f"{broker} does not answer": Interruption(stall(broker, away_s=40.0), durable=True)
        for broker in PATH
    },
    **{f"data is stuck on {a}-{b}": Interruption(hold((a, b), (b, a))) for a, b in PATH_LINKS},
    "data to P is stuck": Interruption(hold(("B1", "P"), ("B6", "P"))),
    "data from P is stuck": Interruption(hold(("P", "B1"), ("P", "B6"))),
}
REQUESTS = {
    "P is sent to a third broker": redirect("B7"),
    "P is sent back": redirect(SOURCE),
    "B2 subscribes": request(lambda f: f.subscribe("SB2", "b > 0")),
    "B5 subscribes": request(lambda f: f.subscribe("SB5", "b > 0")),
    "B7 subscribes": request(lambda f: f.subscribe("SB7", "a > -7")),  # which covers
    "P subscribes": request(lambda f: f.subscribe("P", "b > 0")),
    "B2 unsubscribes": request(lambda f: f.unsubscribe("SB2", "a > 0")),
    "B5 unsubscribes": request(lambda f: f.unsubscribe("SB5", "a > 0")),
    "B7 unsubscribes": request(lambda f: f.unsubscribe("SB7", "a > 0")),
    "P advertises": request(lambda f: f.advertise("P", "a > 0", "once more")),
    "P unadvertises": unadvertise("b > 0"),
    "P unadvertises all": unadvertise("b > 0", "a > 0"),
    "Q unadvertises": request(lambda f: f.unadvertise("Q", "a > 0")),
    "SB7 moves the other way": request(lambda f: f.redirect("SB7", SOURCE)),
    "Q moves the other way": request(lambda f: f.redirect("Q", SOURCE)),
}
OVERLAY = {f"{a} and {b} part": Interruption(part(a, b)) for a, b in PATH_LINKS}
INTERRUPTIONS: dict[str, Interruption] = {
    **CRASHES,
    **CUTS,
    **ABSENCES,
    **DELAYS,
    **{name: Interruption(incident) for name, incident in REQUESTS.items()},
    **OVERLAY,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", INTERRUPTIONS)
def test_a_move_is_interrupted(what: str, step: str) -> None:
    interruption = INTERRUPTIONS[what]
    assert interruption.journey().go(step, interruption.incident)


# --- other casts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cast", OTHERS)
@pytest.mark.parametrize(
    "what",
    [
        *["B5 crashes with its store", "B6 crashes without its store", "B5-B6 is cut for 40 s"],
        *["P-B6 is cut for 3 s", "P disappears until it is forgotten", "P leaves"],
    ],
)
def test_a_move_of_another_cast_is_interrupted(what: str, cast: str) -> None:
    interruption = INTERRUPTIONS[what]
    at_every_step(partial(interruption.journey, cast), interruption.incident, every=4)


@pytest.mark.parametrize("paused", [True, False], ids=["the application pauses", ""])
@pytest.mark.parametrize("cast", ["several advertisements", *ANEW])
def test_an_advertisement_is_made_again(cast: str, paused: bool) -> None:
    """The events before its withdrawal are accepted, wherever it is by then, and those behind, too."""

    def build() -> Journey:
        play = journey(cast)
        if "b > 0" not in play.client.advertisements():
            play.federation.advertise("P", "b > 0")
        play.federation.settle()
        return play

    def strike(play: Journey) -> None:
        if paused:
            play.federation.handle("P", ev.PauseRequested())
        for _ in range(2):
            play.publish("b")
        play.federation.unadvertise("P", "b > 0")
        play.federation.advertise("P", "b > 0")

    def end(play: Journey) -> None:
        play.federation.handle("P", ev.ResumeRequested())
        play.federation.advance(5.0)
        play.publish("b")

    at_every_step(build, Incident(strike, end), every=2)


def test_an_unadvertisement_and_a_crash() -> None:
    """The source that has not acknowledged the last events forgets, when the advertisement is to go."""

    def strike(play: Journey) -> None:
        play.publish("b")
        play.federation.unadvertise("P", "b > 0")
        for _ in range(4):
            play.federation.step()
        play.federation.crash(SOURCE)
        play.federation.start(SOURCE)

    at_every_step(partial(journey, "several advertisements"), Incident(strike, loses=True))


def test_the_pause_of_a_move_that_is_off_is_not_taken_for_that_of_the_next() -> None:
    """The source hears late of all that was said behind it, of the events in between as well."""
    play = journey("plain")
    federation = play.federation
    federation.hold_data.add(("P", SOURCE))
    federation.redirect("P", TARGET)
    federation.advance(MOVE_S + 0.1)
    assert federation.between("P", SOURCE, Paused)
    assert federation.heard("P", "stays")
    for _ in range(3):
        play.publish()
    federation.redirect("P", TARGET)
    federation.advance(1.0)
    federation.hold_data.clear()
    federation.advance(100.0)
    play.check(complete=True)
    federation.redirect("P", TARGET)
    federation.advance(100.0)
    play.check(complete=True)
    assert play.client.address == TARGET


# --- in any order -----------------------------------------------------------------------------------

KEEPS = {
    name: interruption
    for name, interruption in INTERRUPTIONS.items()
    if not interruption.incident.loses and name not in ("Q unadvertises", "Q moves the other way")
}


@given(
    cast=st.sampled_from(list(CASTS)),
    what=st.sampled_from(list(KEEPS)),
    arrived=st.integers(0, 150),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=settings().max_examples // 2)
def test_an_interruption_in_any_order_of_arrival(
    cast: str, what: str, arrived: int, order: Any
) -> None:
    """Connections keep the order of a class, and no other: data may be late, and any link slow."""
    play = journey(cast, durable=True)
    choices = iter(lambda: order.randrange(1000), None)
    play.go(arrived, KEEPS[what].incident, choices)


# --- questions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cast", CASTS)
def test_what_is_to_settle_while_it_moves_is_answered(cast: str) -> None:
    """Whether the first session answers, or the second; and once."""

    def end(journey: Journey) -> None:
        journey.federation.advance(5.0)
        settled = [tell.about for tell in journey.federation.heard("P", "settled")]
        assert settled == ["q"]

    def strike(journey: Journey) -> None:
        journey.federation.handle("P", ev.SettleRequested("q"))

    at_every_step(partial(journey, cast), Incident(strike, end), every=2)


def test_what_was_to_settle_before_it_moved_is_answered() -> None:
    federation = journey("plain").federation
    federation.hold_data.add((SOURCE, "B2"))
    federation.handle("P", ev.SettleRequested("q"))
    federation.redirect("P", TARGET)
    federation.settle()
    assert federation.clients["P"].address == TARGET
    assert not federation.heard("P", "settled")
    federation.hold_data.clear()
    federation.settle()
    assert [tell.about for tell in federation.heard("P", "settled")] == ["q"]


@pytest.mark.parametrize("late", [SOURCE, TARGET])
def test_a_subscription_while_it_moves_has_settled_when_it_is_in_place_at_both(late: str) -> None:
    """Else nobody would have it, if just that session is the one that stays."""
    federation = journey().federation
    federation.redirect("P", TARGET)
    while not federation.between("P", TARGET, Subscribe):
        assert federation.step()
    federation.severed.add(frozenset(("P", late)))
    federation.cut("P", late)
    federation.subscribe("P", "b > 0")
    federation.handle("P", ev.SettleRequested("q"))
    federation.settle()
    assert not federation.heard("P", "settled")
    federation.severed.clear()
    federation.advance(5.0)
    assert federation.heard("P", "settled")
    assert not federation.clients["P"].moving
    federation.check_tables()
