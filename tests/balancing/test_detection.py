"""Whether to balance, what, and with whom (001 section 3.3.2, figures 3.3 to 3.5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.balancing import (
    BROKER,
    CLUSTER,
    Action,
    BackOff,
    BalancingConfig,
    BrokerAction,
    BrokerIndices,
    Cue,
    Indices,
    Moment,
    PieEntry,
    Status,
    after,
    balanced_set,
    detect,
    detect_global,
    is_stable,
    mean_of,
    place_newcomer,
    smoothed,
)
from roost.balancing.detection import overload_of
from roost.balancing.indices import delay_difference, difference
from roost.balancing.states import Transitions

THESIS = BalancingConfig(profile="thesis")
ROOST = BalancingConfig(profile="roost")


def own(
    input_ratio: float = 0.5,
    output_ratio: float = 0.5,
    delay_s: float = 0.02,
    cpu: float = 0.0,
    memory: float = 0.0,
) -> BrokerIndices:
    return BrokerIndices(input_ratio, output_ratio, delay_s, cpu, memory)


def entry(
    broker: str,
    input_ratio: float = 0.5,
    output_ratio: float = 0.5,
    delay_s: float = 0.02,
    status: Status = Status.OK,
) -> PieEntry:
    return PieEntry(broker, status, Indices(input_ratio, output_ratio, delay_s))


def pairs(actions: tuple[BrokerAction, ...]) -> list[tuple[str, str]]:
    return [(each.broker, each.action.value) for each in actions]


# --- indices ------------------------------------------------------------------------------------------


def test_smoothing_is_equation_3_4() -> None:
    first = own(1.0, 0.0, 0.1)
    assert smoothed(None, first, 0.75) == first
    second = smoothed(first, own(0.0, 1.0, 0.2), 0.75)
    assert second.input_ratio == pytest.approx(0.25)
    assert second.output_ratio == pytest.approx(0.75)
    assert second.matching_delay_s == pytest.approx(0.175)


def test_the_percentage_difference_is_equation_3_5() -> None:
    """Half of a microsecond is nothing, and a second is a lot: over N_f, not over one of the two."""
    assert delay_difference(2e-6, 1e-6, 0.1) == pytest.approx(1e-5)
    assert delay_difference(10.0, 9.0, 0.1) == pytest.approx(10.0)
    assert difference(Action.MATCH, own(delay_s=0.022), own(delay_s=0.018), 0.1) == (
        pytest.approx(0.04)
    )


def test_a_cluster_is_the_mean_of_its_edge_brokers() -> None:
    """3.3.1.2."""
    mean = mean_of([Indices(0.25, 0.5, 0.125), Indices(0.75, 1.0, 0.375)])
    assert mean == Indices(0.5, 0.75, 0.25)


# --- step 1: overload (figure 3.5) --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "resource", "action"),
    [
        (own(0.96, 0.5), "input", Action.INPUT),
        (own(0.5, 0.96), "output", Action.OUTPUT),
        (own(0.5, 0.5, cpu=0.96), "cpu", Action.MATCH),
        (own(0.5, 0.5, memory=0.96), "memory", Action.MATCH),
        # The input first, whatever is higher; else the highest.
        (own(0.96, 1.5, cpu=1.0), "input", Action.INPUT),
        (own(0.5, 0.97, cpu=0.99), "cpu", Action.MATCH),
        (own(0.5, 1.2, cpu=0.99, memory=0.97), "output", Action.OUTPUT),
    ],
)
def test_what_is_overloaded_and_what_is_done(
    indices: BrokerIndices, resource: str, action: Action
) -> None:
    found = overload_of(indices, THESIS)
    assert found is not None
    assert (found.resource, found.action) == (resource, action)


def test_an_overloaded_broker_asks_all_that_are_not_the_least_loaded_first() -> None:
    entries = [
        entry("B2", 0.5),
        entry("B3", 0.1),
        entry("B4", 0.0, status=Status.NOT_AVAILABLE),
        entry("B5", 0.3, status=Status.STABILIZING),
    ]
    found = detect(own(0.97), Status.OK, entries, THESIS)
    assert pairs(found.actions) == [("B3", "input"), ("B5", "input"), ("B2", "input")]
    assert not found.is_available


def test_an_overload_breaks_stabilising_and_comes_before_everybody_else() -> None:
    entries = [entry("B2", 0.1), entry("B3", status=Status.NOT_AVAILABLE)]
    assert detect(own(0.97), Status.STABILIZING, entries, THESIS).actions
    assert detect(own(0.97), Status.NOT_AVAILABLE, entries, THESIS).actions


def test_an_overloaded_broker_that_finds_nobody_says_so() -> None:
    """Figure 3.5: its cluster-head is asked for a global session then."""
    found = detect(own(0.97), Status.OK, [entry("B2", status=Status.NOT_AVAILABLE)], THESIS)
    assert found.overload is not None
    assert not found.actions
    assert "nobody" in found.why


def test_a_busy_broker_does_not_look() -> None:
    assert not detect(own(0.97), Status.BUSY, [entry("B2", 0.1)], THESIS).actions


def test_between_the_thresholds_a_broker_is_inert_or_goes_on() -> None:
    """Figure 3.4; the band can trap a broker that neither accepts nor offloads."""
    entries = [entry("B2", 0.1)]
    inert = detect(own(0.92), Status.OK, entries, THESIS)
    assert not inert.is_available
    assert not inert.actions
    goes_on = detect(own(0.92), Status.OK, entries, ROOST)
    assert not goes_on.is_available
    assert goes_on.overload is None
    assert pairs(goes_on.actions)[0] == ("B2", "input")


def test_on_a_threshold_is_not_above_it() -> None:
    assert detect(own(0.9), Status.OK, [], THESIS).is_available
    assert overload_of(own(0.95), THESIS) is None


def test_an_overload_that_no_move_would_lower_is_left_alone() -> None:
    entries = [entry("B2", 0.1, 0.1, 0.0)]
    memory = detect(own(memory=0.99), Status.OK, entries, ROOST, futile=[Action.MATCH])
    assert memory.overload is not None
    assert not memory.actions
    cpu = detect(own(cpu=0.99), Status.OK, entries, ROOST, futile=[Action.MATCH])
    assert pairs(cpu.actions) == [("B2", "input")]


# --- step 2: differences ------------------------------------------------------------------------------


def test_the_widest_differences_come_first() -> None:
    entries = [entry("B2", 0.35, 0.3, 0.02), entry("B3", 0.1, 0.45, 0.001), entry("B4", 0.45)]
    found = detect(own(0.5, 0.5, 0.02), Status.OK, entries, THESIS)
    assert pairs(found.actions) == [
        ("B3", "input"),
        ("B2", "output"),
        ("B3", "match"),
        ("B2", "input"),
    ]


def test_only_the_more_loaded_one_asks() -> None:
    assert not detect(own(0.1, 0.1, 0.0), Status.OK, [entry("B2", 0.9, 0.9, 0.5)], THESIS).actions


def test_a_difference_of_a_threshold_is_none() -> None:
    assert not detect(own(0.5, 0.5), Status.OK, [entry("B2", 0.4, 0.4)], THESIS).actions


@pytest.mark.parametrize("status", [Status.BUSY, Status.STABILIZING])
def test_those_who_would_refuse_are_not_asked(status: Status) -> None:
    assert not detect(own(0.5), Status.OK, [entry("B2", 0.0, status=status)], THESIS).actions


def test_a_stabilising_broker_waits() -> None:
    assert not detect(own(0.5), Status.STABILIZING, [entry("B2", 0.0)], THESIS).actions


def test_overloaded_brokers_have_priority() -> None:
    """3.3.2.3: somebody else's N/A keeps an OK broker from asking."""
    entries = [entry("B2", 0.0), entry("B3", status=Status.NOT_AVAILABLE)]
    assert "overloaded" in detect(own(0.5), Status.OK, entries, THESIS).why
    assert not detect(own(0.5), Status.OK, entries, THESIS).actions


def test_those_who_would_not_ask_have_none() -> None:
    """Between the thresholds a broker does nothing: if all waited for it, nothing would ever happen."""
    entries = [entry("B2", 0.0), entry("B3", 0.92, status=Status.NOT_AVAILABLE)]
    assert detect(own(0.5), Status.OK, entries, THESIS).actions
    assert not detect(own(0.5), Status.OK, entries, ROOST).actions  # there it would ask
    printed = BalancingConfig(profile="thesis", priority="all")
    assert not detect(own(0.5), Status.OK, entries, printed).actions


def test_a_broker_that_is_filled_up_is_not_asked() -> None:
    """Profile roost fills to 0.8: at that, nothing could be given to it."""
    entries = [entry("B2", 0.0, 0.82)]
    assert detect(own(0.5), Status.OK, entries, THESIS).actions
    assert not detect(own(0.5), Status.OK, entries, ROOST).actions


def test_partners_that_rest_are_not_asked() -> None:
    entries = [entry("B2", 0.2, 0.2), entry("B3", 0.3)]
    resting = [("B2", Action.INPUT)]
    found = detect(own(0.5), Status.OK, entries, THESIS, resting=resting)
    assert pairs(found.actions) == [("B2", "output"), ("B3", "input")]


def test_the_balanced_set() -> None:
    entries = [
        entry("B4", 0.55),
        entry("B2", 0.45, 0.45),
        entry("B3", 0.3),
        entry("B5", delay_s=0.05),
    ]
    assert balanced_set(own(0.5), entries, THESIS) == ["B2", "B4"]


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.1), st.sampled_from(Status)),
        max_size=5,
    ),
    st.tuples(st.floats(0, 1.2), st.floats(0, 1.2), st.floats(0, 0.1)),
    st.sampled_from([THESIS, ROOST]),
)
def test_whom_to_ask_by_the_sentences(
    others: list[tuple[float, float, float, Status]],
    mine: tuple[float, float, float],
    config: BalancingConfig,
) -> None:
    """3.3.2.1 again, sentence by sentence."""
    indices = own(*mine)
    entries = [entry(f"B{k}", *other) for k, other in enumerate(others)]
    found = detect(indices, Status.OK, entries, config)
    over = max(indices.input_ratio, indices.output_ratio)
    assert found.is_available == (over <= 0.9)
    for each in found.actions:
        other = entries[int(each.broker[1:])]
        assert other.status is not Status.NOT_AVAILABLE
        assert (
            max(other.indices.input_ratio, other.indices.output_ratio) < config.rules.accept_limit
        )
        if found.overload is None:
            assert each.difference > 0.1
            assert other.status is Status.OK
            assert over <= (0.9 if config is THESIS else 0.95)
    if found.overload is None:
        sizes = [each.difference for each in found.actions]
        assert sizes == sorted(sizes, reverse=True)
        asking = [
            e
            for e in entries
            if e.status is Status.NOT_AVAILABLE
            and not 0.9 < max(e.indices.input_ratio, e.indices.output_ratio) <= 0.95
        ]
        if asking and found.is_available:
            assert not found.actions


# --- stabilising --------------------------------------------------------------------------------------


def history(*values: float, every: float = 10.0) -> list[Moment]:
    """Indices that are all the same, from 0 s on."""
    return [Moment(k * every, Indices(x, x, x / 10)) for k, x in enumerate(values)]


def test_the_duration_and_the_percentage() -> None:
    """30 s after the session, and no more than 0.05 from first to last."""
    steady = history(0.5, 0.52, 0.51, 0.53, 0.52, 0.51)
    assert not is_stable(steady, 0.0, 29.0, THESIS)
    assert is_stable(steady, 0.0, 30.0, THESIS)
    rising = history(0.5, 0.52, 0.54, 0.56, 0.58, 0.6)
    assert not is_stable(rising, 0.0, 30.0, THESIS)


def test_what_was_before_the_end_of_the_session_does_not_count() -> None:
    drop = history(0.9, 0.9, 0.3, 0.3, 0.3, 0.3)
    assert is_stable(drop, 20.0, 50.0, THESIS)


def test_only_the_last_minute_counts() -> None:
    slow = history(0.1, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    assert not is_stable(slow, 0.0, 60.0, THESIS)
    assert is_stable(slow, 0.0, 80.0, THESIS)


def test_without_two_looks_nothing_is_stable() -> None:
    assert not is_stable(history(0.5), 0.0, 100.0, THESIS)


def test_the_percentage_is_absolute_or_relative() -> None:
    """A broker near nothing changes by a lot, relatively."""
    low = history(0.02, 0.025, 0.03, 0.028)
    relative = BalancingConfig(profile="thesis", stable_change="relative")
    assert is_stable(low, 0.0, 30.0, THESIS)
    assert not is_stable(low, 0.0, 30.0, relative)


# --- states (figure 3.3) ------------------------------------------------------------------------------


def test_a_session_from_beginning_to_end() -> None:
    status = Status.OK
    for cue, then in [
        (Cue.BEGUN, Status.BUSY),
        (Cue.OVERLOADED, Status.BUSY),
        (Cue.ENDED, Status.STABILIZING),
        (Cue.OVERLOADED, Status.NOT_AVAILABLE),
        (Cue.RELIEVED_UNSTABLE, Status.STABILIZING),
        (Cue.STABLE, Status.OK),
        (Cue.OVERLOADED, Status.NOT_AVAILABLE),
        (Cue.RELIEVED, Status.OK),
    ]:
        status = after(BROKER, status, cue)
        assert status is then


def test_a_cluster_never_stabilises() -> None:
    states = {then for cues in CLUSTER.values() for then in cues.values()}
    assert Status.STABILIZING not in states
    assert after(CLUSTER, Status.BUSY, Cue.ENDED) is Status.OK


def test_every_state_can_be_reached_and_left() -> None:
    for table in (BROKER, CLUSTER):
        reached = {then for cues in table.values() for then in cues.values()}
        assert reached == set(table)


@pytest.mark.parametrize("table", [BROKER, CLUSTER])
def test_the_documentation_draws_the_same_states(table: Transitions) -> None:
    rows = [["state", *Cue], ["---"] * (len(Cue) + 1)]
    rows += [[status, *(cues.get(cue, "") for cue in Cue)] for status, cues in table.items()]
    drawn = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    page = (Path(__file__).parents[2] / "docs" / "BALANCING.md").read_text("utf-8")
    assert f"\n\n{drawn}\n" in page


# --- clusters (3.3.2.2) -------------------------------------------------------------------------------


def test_clusters_are_compared_by_thresholds_of_their_own() -> None:
    cluster = Indices(0.5, 0.5, 0.02)
    near, far = entry("C2", 0.38), entry("C3", 0.3, 0.2)
    found = detect_global(cluster, Status.OK, [near, far], THESIS)
    assert pairs(found.actions) == [("C3", "output")]  # each once, with its widest
    assert not detect_global(cluster, Status.BUSY, [far], THESIS).actions


def test_overloaded_clusters_have_priority_and_may_ask() -> None:
    cluster = Indices(0.5, 0.5, 0.02)
    entries = [entry("C2", 0.1), entry("C3", status=Status.NOT_AVAILABLE)]
    assert not detect_global(cluster, Status.OK, entries, THESIS).actions
    # It could ask nobody: whoever waited for it would wait for good.
    balanced = [entry("C2", 0.1), entry("C3", 0.2, 0.5, status=Status.NOT_AVAILABLE)]
    assert detect_global(cluster, Status.OK, balanced, THESIS).actions
    printed = BalancingConfig(profile="thesis", priority="all")
    assert not detect_global(cluster, Status.OK, balanced, printed).actions
    assert detect_global(cluster, Status.NOT_AVAILABLE, entries, THESIS).actions


def test_a_request_need_not_wait_for_a_threshold() -> None:
    cluster = Indices(0.5, 0.5, 0.02)
    entries = [entry("C2", 0.45), entry("C3", 0.6, 0.6, 0.1)]
    assert not detect_global(cluster, Status.NOT_AVAILABLE, entries, THESIS).actions
    found = detect_global(cluster, Status.NOT_AVAILABLE, entries, THESIS, is_requested=True)
    assert pairs(found.actions) == [("C2", "input")]


# --- newcomers ----------------------------------------------------------------------------------------


def test_newcomers_go_to_any_broker_that_is_not_overloaded_or_to_the_least_loaded() -> None:
    """3.2."""
    entries = [
        entry("B3", 0.1, 0.6),
        entry("B2", 0.5, 0.2),
        entry("B1", 0.0, 0.0, status=Status.NOT_AVAILABLE),
    ]
    assert [place_newcomer(entries, THESIS, draw) for draw in (0.0, 0.49, 0.5, 0.99)] == [
        "B2",
        "B2",
        "B3",
        "B3",
    ]
    assert place_newcomer(entries, ROOST, 0.9) == "B2"
    assert place_newcomer(entries[2:], ROOST, 0.9) is None


# --- back-off -----------------------------------------------------------------------------------------


def test_a_partner_rests_twice_as_long_each_time() -> None:
    config = BalancingConfig(back_off_s=100.0, back_off_max_s=300.0)
    back_off = BackOff(config)
    back_off.failed("B2", Action.INPUT, 0.0)
    assert back_off.resting(99.0) == [("B2", Action.INPUT)]
    assert back_off.resting(100.0) == []
    back_off.failed("B2", Action.INPUT, 100.0)
    assert back_off.resting(299.0) == [("B2", Action.INPUT)]
    back_off.failed("B2", Action.INPUT, 300.0)
    assert back_off.resting(600.0) == []
    back_off.succeeded("B2", Action.INPUT)
    back_off.failed("B2", Action.INPUT, 1_000.0)
    assert back_off.resting(1_100.0) == []


def test_the_thesis_knows_no_rest() -> None:
    back_off = BackOff(THESIS)
    back_off.failed("B2", Action.INPUT, 0.0)
    assert back_off.resting(0.0) == []
