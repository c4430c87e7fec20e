"""PIE: what is published, what is kept, and how far it goes (001 section 3.3.1)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from roost.balancing import BalancingConfig, Status
from roost.balancing.pie import LOCAL_PIE, Pie, PieSource, PieTable, pie_of
from roost.broker.errors import RemoteProtocolError
from tests.balancing.clusters import HURRIED, Clusters, cluster

CONFIG = BalancingConfig(profile="thesis")
PERIOD_S = CONFIG.local_pie_period_s
# No global sessions.
STILL = replace(HURRIED, global_ratio_threshold=9.0, global_delay_threshold=9.0)
PIE = Pie("B1", "B0", Status.OK, ("B2",), 0.02, 0.4, 0.5)


def source() -> PieSource:
    """One that has told everything at 0 s."""
    found = PieSource(CONFIG, PERIOD_S)
    assert found.next(0.0, PIE) == PIE
    return found


def test_a_pie_is_an_event_of_a_reserved_class() -> None:
    event = PIE.attributes()
    assert event["class"] == LOCAL_PIE
    assert (event["clusterID"], event["brokerID"], event["status"]) == ("B0", "B1", "OK")
    assert pie_of(event) == PIE
    left_out = replace(PIE, input_ratio=None, balanced=(), via="B0", status=Status.NOT_AVAILABLE)
    assert "inputUtilization" not in left_out.attributes()
    assert pie_of(left_out.attributes()) == left_out


@pytest.mark.parametrize(
    "change", [{"status": "SLEEPY"}, {"matchingDelay": "soon"}, {"brokerID": None}]
)
def test_what_is_no_pie_is_the_senders_fault(change: dict[str, object]) -> None:
    event = {k: v for k, v in (PIE.attributes() | change).items() if v is not None}
    with pytest.raises(RemoteProtocolError, match="a PIE that says"):
        pie_of(event)  # type: ignore[arg-type]


def test_what_has_not_passed_its_threshold_is_not_published() -> None:
    within = replace(PIE, input_ratio=0.424, output_ratio=0.476, matching_delay_s=0.0224)
    assert source().next(PERIOD_S, within) is None


def test_only_indices_that_have_passed_are_published() -> None:
    found = source()
    passed = replace(PIE, input_ratio=0.43, output_ratio=0.51, matching_delay_s=0.0226)
    said = found.next(PERIOD_S, passed)
    assert said == replace(passed, output_ratio=None)
    # What was left out still counts as what it was when it was published.
    drift = replace(passed, output_ratio=0.53)
    assert found.next(PERIOD_S * 1.4, drift) == replace(
        drift, input_ratio=None, matching_delay_s=None
    )


@pytest.mark.parametrize("status", [Status.BUSY, Status.NOT_AVAILABLE, Status.STABILIZING])
def test_who_is_not_available_only_says_so_once(status: Status) -> None:
    """Figures change nothing for others; that it is OK again does."""
    found = source()
    busy = replace(PIE, status=status)
    said = found.next(1.0, busy)
    assert said is not None
    assert (said.status, said.input_ratio) == (status, None)
    assert found.next(PERIOD_S, replace(busy, input_ratio=0.9)) is None
    assert found.next(PERIOD_S + 1, PIE) is not None


def test_an_unchanged_pie_is_published_after_two_periods_in_full() -> None:
    found = source()
    assert found.next(PERIOD_S, PIE) is None
    assert found.next(2 * PERIOD_S, PIE) == PIE
    never = PieSource(replace(CONFIG, refresh_periods=0), PERIOD_S)
    assert never.next(0.0, PIE) == PIE
    assert never.next(10 * PERIOD_S, PIE) is None


def test_who_changes_all_the_time_also_tells_everything_now_and_then() -> None:
    """Whoever came late, or was away, would never hear what was left out."""
    found = source()
    whole = []
    for n in range(1, 7):
        said = found.next(n * PERIOD_S / 2, replace(PIE, input_ratio=0.4 + n / 20))
        assert said is not None
        whole.append(said.output_ratio is not None)
    assert whole == [False, False, True, False, False, True]


def test_a_change_of_the_balanced_set_is_published_while_heads_watch() -> None:
    changed = replace(PIE, balanced=("B2", "B3"))
    assert source().next(PERIOD_S, changed) is None
    said = source().next(PERIOD_S, changed, watched=True)
    assert said is not None
    assert said.balanced == ("B2", "B3")


def test_entries_are_forgotten_after_three_periods() -> None:
    table = PieTable(CONFIG, PERIOD_S)
    table.heard(PIE, 0.0)
    assert table.entries(3 * PERIOD_S - 1).keys() == {"B1"}
    assert not table.entries(3 * PERIOD_S)


def test_what_was_left_out_is_what_it_was() -> None:
    table = PieTable(CONFIG, PERIOD_S)
    table.heard(PIE, 0.0)
    table.heard(replace(PIE, status=Status.BUSY, input_ratio=0.7, output_ratio=None), 10.0)
    entry = table.entries(11.0)["B1"]
    assert (entry.status, entry.indices.input_ratio) == (Status.BUSY, 0.7)
    assert (entry.indices.output_ratio, entry.indices.matching_delay_s) == (0.5, 0.02)
    assert entry.until == 10.0 + 3 * PERIOD_S


def test_who_is_known_in_part_is_no_candidate() -> None:
    table = PieTable(CONFIG, PERIOD_S)
    table.heard(replace(PIE, output_ratio=None), 0.0)
    assert not table.entries(1.0)
    table.heard(replace(PIE, input_ratio=None, matching_delay_s=None), 2.0)
    assert table.entries(3.0).keys() == {"B1"}


def test_local_pies_stay_in_their_cluster() -> None:
    second = {"B4": (20.0, 0.1), "B5": (20.0, 0.1)}
    lines = [*cluster(), *cluster_of_nobody("B9", second), "0.2 link add B0 B9 2"]
    world = Clusters.of(lines, STILL)
    world.run(30)
    assert world.edge("B1").table.entries(30.0).keys() == {"B2", "B3"}
    assert world.edge("B4").table.entries(30.0).keys() == {"B5"}
    assert world.head("B9").brokers.entries(30.0).keys() >= {"B4", "B5"}


def cluster_of_nobody(head: str, speeds: dict[str, tuple[float, float]]) -> list[str]:
    """A cluster without clients."""
    return [line for line in cluster(speeds, head=head, subscribers=0) if "publisher" not in line]


def test_global_pies_go_one_cluster_far_unless_the_one_between_is_overloaded() -> None:
    """A chain of clusters, B0 - B8 - B9: who is N/A is no barrier (3.3.1.2)."""
    lines = [
        *cluster(subscribers=6),
        *cluster_of_nobody("B8", {"B4": (20.0, 0.1), "B5": (20.0, 0.1)}),
        *cluster_of_nobody("B9", {"B6": (20.0, 0.1), "B7": (20.0, 0.1)}),
        "0.2 link add B0 B8 2",
        "0.2 link add B8 B9 2",
    ]
    world = Clusters.of(lines, STILL)
    world.run(30)
    assert world.head("B0").clusters.entries(30.0).keys() == {"B8"}
    assert world.head("B8").clusters.entries(30.0).keys() == {"B0", "B9"}
    mean = world.head("B0").clusters
    assert world.head("B8").clusters.entries(30.0)["B0"].indices.output_ratio > 0
    assert mean.entries(30.0)["B8"].indices.output_ratio < 0.05
    # B4 is overloaded, by what nobody may take off it.
    edge = world.edge("B4")
    edge.detect = lambda now: None  # type: ignore[method-assign]  # noqa: ARG005
    edge._status = Status.NOT_AVAILABLE
    world.run(60)
    assert world.head("B8").status(60.0) is Status.NOT_AVAILABLE
    assert world.head("B0").clusters.entries(60.0).keys() == {"B8", "B9"}
