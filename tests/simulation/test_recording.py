"""What a simulated run records: where events came from and went to, who wants what, what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roost.broker.messages import Publication
from roost.language import Event, parse_event
from roost.simulation.run import check, rest, run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from roost.traces import TraceWriter, read_table
from roost.traces.rows import event_row
from roost.traces.schemas import LATER

PAIR = """
0.0 federation set load_period_s 1
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 link add B1 B2 10
1.0 publisher add P - 0 B1 a > 1
1.0 subscriber add S1 B1 a > 1
1.0 subscriber add S2 B2 a > 5
1.0 subscriber subscribe S2 more a > 6
"""
Rows = list[dict[str, Any]]


def recorded(text: str, folder: Path, until: float = 20.0, **options: bool) -> dict[str, Rows]:
    """The tables of a run, all of whose checks are clean."""
    workload = parse_workload(text, "workload", None)
    with TraceWriter(folder, "r", **options) as trace:  # type: ignore[arg-type]
        world = World(workload.settings, workload.statements, trace=trace)
        run(world, until)
        assert check(world, rested=rest(world), must_rest=True).clean
    return {table: read_table(path).to_pylist() for table, path in trace.paths.items()}


def test_where_events_came_from_and_went_to(tmp_path: Path) -> None:
    text = PAIR + "5.0 publisher publish P [a,3]\n6.0 publisher publish P [a,7]\n"
    first, second, third = recorded(text, tmp_path)["deliveries"]
    assert (first["broker"], first["source"], first["from_client"]) == ("B1", "P", True)
    assert (first["neighbours"], first["forwarded"], first["local_subscribers"]) == ([], 0, 1)
    ((client, subscriptions),) = [tuple(each.values()) for each in first["clients"]]
    assert (client, len(subscriptions)) == ("S1", 1)
    assert (second["neighbours"], second["clients"]) == (["B2"], first["clients"])
    assert (third["broker"], third["source"], third["from_client"]) == ("B2", "B1", False)
    (at_b2,) = third["clients"]
    assert (at_b2["client"], len(at_b2["subscriptions"])) == ("S2", 2)
    assert not any(row["traced"] for row in (first, second, third))


def test_without_the_ways_the_same_is_counted(tmp_path: Path) -> None:
    text = PAIR + "5.0 publisher publish P [a,3]\n6.0 publisher publish P [a,7]\n"
    whole, counted = (recorded(text, tmp_path / str(ways), ways=ways) for ways in (True, False))
    assert counted["loads"] == whole["loads"]
    assert counted["links"] == whole["links"]
    assert not counted["interests"]
    later = LATER["deliveries"]
    for one, other in zip(counted["deliveries"], whole["deliveries"], strict=True):
        assert one == {**other, **later}


def test_counts_begin_again_with_the_life_of_a_broker(tmp_path: Path) -> None:
    """What clients want is told in each life, first."""
    faults = "8.0 broker crash B2 keep\n9.0 broker restart B2\n"
    events = "".join(f"{at}.0 publisher publish P [a,7]\n" for at in (5, 6, 7, 13, 14))
    tables = recorded(PAIR + faults + events, tmp_path)
    lives = {row["broker"]: set[int]() for row in tables["links"]}
    for row in tables["links"]:
        lives[row["broker"]].add(row["life"])
    assert lives == {"B1": {1}, "B2": {1, 2}}
    wanted = [row for row in tables["interests"] if row["broker"] == "B2"]
    assert [row["life"] for row in wanted] == [1, 1, 2, 2]
    assert {row["filter"] for row in wanted} == {"a > 5", "a > 6"}
    assert all(row["added"] and row["kind"] == "subscription" for row in wanted)


def test_who_wants_and_offers_what(tmp_path: Path) -> None:
    text = PAIR + "8.0 subscriber unsubscribe S2 more\n9.0 subscriber remove S1\n"
    rows = recorded(text, tmp_path)["interests"]
    found = [
        (row["broker"], row["client"], row["kind"], row["filter"], row["added"]) for row in rows
    ]
    assert sorted(found) == [
        ("B1", "P", "advertisement", "a > 1", True),
        ("B1", "S1", "subscription", "a > 1", False),
        ("B1", "S1", "subscription", "a > 1", True),
        ("B2", "S2", "subscription", "a > 5", True),
        ("B2", "S2", "subscription", "a > 6", False),
        ("B2", "S2", "subscription", "a > 6", True),
    ]
    at = {(row["filter"], row["client"], row["added"]): row["time"] for row in rows}
    assert at["a > 6", "S2", True] < 8.0 < at["a > 6", "S2", False]
    assert at["a > 1", "S1", False] > 9.0


def test_what_grape_measures_is_there_and_pop_s_draw(tmp_path: Path) -> None:
    text = (
        "0.0 federation set traces 4\n0.0 federation optimiser pop observing\n"
        "0.0 federation set optimiser grape-delay100\n"
    )
    events = "".join(f"{5 + n / 10} publisher publish P [a,7]\n" for n in range(8))
    tables = recorded(text + PAIR + events, tmp_path)
    measured = {(row["broker"], row["kind"], row["subject"]): row for row in tables["measures"]}
    assert {("B1", "link", "B2"), ("B2", "link", "B1"), ("B1", "expected", "")} <= set(measured)
    # Ten milliseconds, there or back; and the answer of a client.
    assert 0.01 <= measured["B1", "link", "B2"]["value"] < 0.02
    assert measured["B1", "round trip", "P"]["module"] == "grape"
    assert measured["B1", "round trip", "P"]["other"]
    assert any(row["traced"] for row in tables["deliveries"] if row["hop"] == 0)


def test_content_is_recorded_if_somebody_wants_it(tmp_path: Path) -> None:
    text = PAIR + "5.0 publisher publish P [a,7],[b,'x']\n"
    assert "events" not in recorded(text, tmp_path / "without")
    (row,) = recorded(text, tmp_path / "with", content=True)["events"]
    assert (row["broker"], row["publisher"], row["sequence"]) == ("B1", "P", 1)
    assert parse_event(row["event"]) == Event({"a": 7, "b": "x"})
    endless = Event({"a": float("inf")})
    written = event_row(1.0, "B1", Publication("P", 1, endless)).event
    assert parse_event(written) == endless


def test_what_was_not_routed_has_no_source(tmp_path: Path) -> None:
    """A publisher may not say what it has not advertised."""
    text = PAIR + "4.0 publisher unadvertise P main\n"
    rows = recorded(text + "5.0 publisher publish P [a,7]\n", tmp_path)["deliveries"]
    for row in rows:
        assert (row["source"], row["clients"], row["neighbours"]) == (None, [], [])
