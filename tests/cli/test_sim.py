"""`roost sim`: runs, workload files from a seed, and random scenarios."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from roost.cli.sim.command import ProfileName
from roost.simulation.faults import PROFILES
from roost.simulation.oracle import Oracle
from roost.simulation.workload_file import read_workload
from roost.traces import read_table
from roost.traces.schemas import traced_tables
from tests.cli.support import Ran, Roost

TABLES = (*traced_tables(content=False), "runs")
CHAIN = """\
0 federation set durability on
0 federation set load_period_s 5
0 broker add B0 1000 16 10
0 broker add B1 1000 16 10
0 link add B0 B1
1 publisher add P1 YHOO 60 B0
1 subscriber add S1 B1 class = 'STOCK'
2 subscriber add S2 B1 volume > 0
20 end
"""
OVERLOAD = """\
0 broker add B0 0.1 16 10
1 subscriber add S1 B0 class = 'STOCK'
2 publisher add P1 YHOO 3600 B0
60 end
"""


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    return write(tmp_path, CHAIN)


def write(folder: Path, text: str) -> Path:
    path = folder / "chain.workload"
    path.write_text(text)
    return path


def lines(ran: Ran) -> list[str]:
    return [" ".join(line.split()) for line in ran.out.splitlines()]


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: the twelfth event of every publisher gets lost at the very end."""
    real: Callable[..., None] = Oracle.arrived

    def arrived(oracle: Oracle, party: Any, publication: Any, *rest: Any) -> None:
        if publication.sequence != 12:
            real(oracle, party, publication, *rest)

    monkeypatch.setattr(Oracle, "arrived", arrived)


# --- run ------------------------------------------------------------------------------------------


def test_a_run_for_people(roost: Roost, chain: Path) -> None:
    ran = roost("sim", "run", chain)
    assert (ran.code, ran.err) == (0, "")
    said = lines(ran)
    assert said[0] == "Run chain-0"
    assert "federation 2 brokers, 3 clients" in said
    assert any(line.startswith("broker input output matching in queue") for line in said)
    assert any(line.startswith("B1 ") for line in said)
    assert "Checks: no violations" in said
    for name in ("lost", "doubled", "reordered", "unwanted", "routing errors", "accounts"):
        assert f"{name} none" in said
    assert "queues none" in said
    assert max(map(len, ran.out.splitlines())) <= 100
    assert not any(line.endswith(" ") for line in ran.out.splitlines())


def test_a_run_for_programs(roost: Roost, chain: Path) -> None:
    ran = roost("sim", "run", chain, "--json", "--seed", 5)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\n") == 1
    whole = ran.json
    assert list(whole) == ["run", "summary", "checks", "moves"]
    assert whole["run"] == "chain-5"
    assert whole["summary"]["brokers"] == 2
    assert [b["broker"] for b in whole["summary"]["per_broker"]] == ["B0", "B1"]
    checks = whole["checks"]
    assert checks["delivered"] > 20
    for name in ("lost", "doubled", "reordered", "unwanted", "routing_errors"):
        assert checks[name] == 0
    assert checks["account_errors"] == checks["queue_errors"] == checks["in_transit"] == 0
    assert checks["rested"] is True
    assert checks["violations"] == []


def figures(ran: Ran) -> dict[str, Any]:
    """What does not depend on how fast the machine is."""
    whole = ran.json
    del whole["summary"]["wall_s"], whole["summary"]["hops_per_s"]
    return whole


def test_the_same_seed_gives_the_same_run(roost: Roost, chain: Path) -> None:
    arguments = ("sim", "run", chain, "--json", "--faults", "all", "--seed")
    once, again, other = (figures(roost(*arguments, seed)) for seed in (3, 3, 4))
    assert once == again
    assert once["summary"] != other["summary"]


def test_until_ends_a_run(roost: Roost, chain: Path) -> None:
    short, long = (roost("sim", "run", chain, "--until", s, "--json").json for s in (10, 40))
    assert short["summary"]["virtual_s"] == 10.0
    assert long["summary"]["publications"] > 3 * short["summary"]["publications"]


def test_without_an_end_a_run_goes_on_for_a_minute(roost: Roost, tmp_path: Path) -> None:
    path = write(tmp_path, CHAIN.replace("20 end\n", ""))
    assert roost("sim", "run", path, "--json").json["summary"]["virtual_s"] == 62.0


def test_a_run_that_stops_dead(roost: Roost, chain: Path) -> None:
    ran = roost("sim", "run", chain, "--no-rest")
    assert ran.code == 0
    assert "routing errors not judged" in lines(ran)
    assert "events in transit, tables not judged (it was not given the time (--no-rest))" in (
        " ".join(lines(ran))
    )
    assert roost("sim", "run", chain, "--no-rest", "--json").json["summary"]["rest_s"] == 0


def test_an_overloaded_broker_is_no_violation(roost: Roost, tmp_path: Path) -> None:
    path = write(tmp_path, OVERLOAD)
    ran = roost("sim", "run", path, "--trace", tmp_path / "t")
    assert ran.code == 0
    said = lines(ran)
    assert "B0 is overloaded since 10 s" in said
    assert any(
        line.startswith("not at rest: ")
        and line.endswith(" events in transit, tables not judged (B0 is overloaded)")
        for line in said
    )
    without = lines(roost("sim", "run", path))
    assert "B0 is overloaded at the end (--trace tells since when)" in without


@pytest.mark.usefixtures("forgetful")
def test_violations_are_told_and_exit_1(roost: Roost, chain: Path) -> None:
    ran = roost("sim", "run", chain)
    assert ran.code == 1
    said = lines(ran)
    assert "Checks: 2 violations" in said
    assert "lost 2" in said
    assert any(
        line.startswith("P1:12, published at ") and "never reached S1 (main), S2 (main)" in line
        for line in said
    )
    whole = roost("sim", "run", chain, "--json")
    assert (whole.code, whole.json["checks"]["lost"]) == (1, 2)
    assert whole.json["checks"]["violations"][0].startswith("P1:12, ")


def test_stories_of_events_and_clients(roost: Roost, chain: Path) -> None:
    ran = roost("sim", "run", chain, "--story", "P1:3", "--story", "S1", "--story", "P1:999")
    assert ran.code == 0
    said = lines(ran)
    event, client = said.index("The story of P1:3"), said.index("The story of S1")
    told = said[event + 1 : client - 1]
    ways = [" ".join(line.split()[1:4]) for line in told]
    assert ways[:2] == ["P1 -> B0", "B0 -> B1"]
    assert sorted(ways[2:]) == ["B1 -> S1", "B1 -> S2"]
    assert any("subscribe S1/1 class = 'STOCK'" in line for line in said[client:])
    assert said[-2:] == ["The story of P1:999", "nobody said anything about it"]


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "none"])
def test_faults_are_added(roost: Roost, chain: Path, tmp_path: Path, profile: str) -> None:
    if profile == "standbys":
        settings = "0.0 federation set durability on\n0.0 federation set standbys on\n"
        chain.write_text(settings + chain.read_text())
    plain = roost("sim", "run", chain, "--json", "--seed", 2).json
    ran = roost("sim", "run", chain, "--json", "--seed", 2, "--faults", profile)
    assert ran.code == 0
    assert ran.json["run"] == f"chain-2-{profile}"
    assert ran.json["summary"]["delay_max_s"] != plain["summary"]["delay_max_s"]
    assert not list(tmp_path.glob("*.part"))


def test_the_profiles_of_the_command_are_those_there_are() -> None:
    assert get_args(ProfileName) == tuple(PROFILES)


# --- traces ---------------------------------------------------------------------------------------


def test_a_trace_is_written_and_replaced(roost: Roost, chain: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    ran = roost("sim", "run", chain, "--trace", folder)
    assert ran.code == 0
    paths = {table: folder / table / "run=chain-0" / "part-0.parquet" for table in TABLES}
    for table, path in paths.items():
        assert any(line.split() == [table, str(path)] for line in ran.out.splitlines())
    assert read_table(paths["deliveries"]).num_rows > 30
    assert set(read_table(paths["loads"])["broker"].to_pylist()) == {"B0", "B1"}
    assert set(read_table(paths["links"])["class"].to_pylist()) == {"control", "data"}
    before = {table: path.read_bytes() for table, path in paths.items()}
    paths["loads"].write_bytes(b"rubbish")
    assert roost("sim", "run", chain, "--trace", folder).code == 0
    assert {table: path.read_bytes() for table, path in paths.items()} == before
    assert roost("sim", "run", chain, "--trace", folder, "--seed", 1).code == 0
    assert sorted(p.name for p in (folder / "loads").iterdir()) == ["run=chain-0", "run=chain-1"]


TRIPLE = """\
0 broker add B1 1000 16 10
0 broker add B2 1000 16 10
0 broker add B3 1000 16 10
0 link add B1 B2 10
0 link add B2 B3 10
1 publisher add P YHOO 60 B1
1 subscriber add S B3 class = 'STOCK'
20 end
"""


def test_what_the_data_lane_of_a_link_counts(roost: Roost, tmp_path: Path) -> None:
    """Publications and, if somebody moves, its markers: what docs/SIMULATION.md says of the table."""

    def counted(text: str, name: str) -> tuple[int, int]:
        path = tmp_path / f"{name}.workload"
        path.write_text(text)
        assert roost("sim", "run", path, "--trace", tmp_path / "traces").code == 0
        tables = tmp_path / "traces"
        links = read_table(tables / "links" / f"run={name}-0" / "part-0.parquet").to_pylist()
        last = {(r["broker"], r["neighbour"]): r["sent"] for r in links if r["class"] == "data"}
        visits = read_table(tables / "deliveries" / f"run={name}-0" / "part-0.parquet")
        return sum(last.values()), sum(visits["forwarded"].to_pylist())

    sent, forwarded = counted(TRIPLE, "still")
    assert sent == forwarded > 0
    sent, forwarded = counted(TRIPLE + "10 client redirect P B3\n", "moved")
    assert sent > forwarded > 0
    manual = (Path(__file__).parents[2] / "docs" / "SIMULATION.md").read_text("utf-8")
    assert "after moves more is `sent` in it than publications" in " ".join(manual.split())


def test_traces_are_the_same_whatever_the_hashes(chain: Path, tmp_path: Path) -> None:
    """Byte for byte, with faults."""
    found = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        command = ["sim", "run", chain, "--seed", 7, "--faults", "all", "--trace", folder]
        code = f"from roost.cli.main import main; main({[str(word) for word in command]!r})"
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        paths = sorted(p for p in folder.rglob("*.parquet"))
        found.append({p.relative_to(folder): p.read_bytes() for p in paths})
    assert len(found[0]) == len(TABLES)
    assert found[0] == found[1]


# --- bad input ------------------------------------------------------------------------------------

START = "0 broker add B0 1 1 1\n0 broker add B1 1 1 1\n0 link add B0 B1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 broker fly B0", ":1: column 10: unknown verb of broker 'fly'; expected one of add, "),
        ("x", ":1: column 1: the time is 'x'; expected a time in seconds"),
        (f"{START}1 subscriber add S1 B7 a > 1", ":4: there is no broker B7; expected one that"),
        (f"{START}1 link add B1 B0", ":4: there is a link B1 - B0 already"),
        (
            f"{START}0 broker add B2 1 1 1\n0 link add B1 B2\n1 link add B2 B0",
            ":6: the link B2 - B0 would close a cycle, B2 - B1 - B0 - B2",
        ),
        (f"{START}1 subscriber add S1 B0 a >", ":4: column 27: found the end of the text"),
        ("0 federation set load_period_s 0", ":1: setting load_period_s: '0' will not do"),
        ("0 federation set linger_s nan", ":1: setting linger_s: 'nan' will not do"),
        (f"{START}\n1 market bars gone.csv", ":5: FOLDER/gone.csv: No such file or directory"),
        (f"{START}1 market bars a.txt", ":4: FOLDER/a.txt: expected a file of bars that ends in"),
        (f"{START}1 latency matrix rtt.npz", ":4: FOLDER/rtt.npz: there is no such file of lat"),
        (
            f"0 market bars bars.csv\n{START}1 publisher add P0 A 60 B0\n1 publisher add P1 X 60 B0",
            ":6: FOLDER/bars.csv: no bars of 'X'; there are A",
        ),
        ("0 end", ": the run would end at 0 s; expected a time above 0"),
    ],
)
def test_bad_workloads_are_refused_by_line(
    roost: Roost, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "bars.csv").write_text(
        "symbol,open,high,low,close,volume,date\nA,10,11,9,10,5,5-Sep-96\n"
    )
    path = write(tmp_path, text)
    ran = roost("sim", "run", path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {path}{message.replace('FOLDER', str(tmp_path))}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "gone.workload"), "error: gone.workload: No such file or directory; expected a w"),
        (("run", "chain.workload", "--until", "0"), "the run would end at 0 s; expected a time"),
        (("run", "chain.workload", "--until", "nan"), "the run would end at nan s; expected"),
        (("run", "chain.workload", "--until", "soon"), "--until': Input should be a valid number"),
        (("run", "chain.workload", "--seed", "-1"), "greater than or equal to 0"),
        (("run", "chain.workload", "--faults", "some"), "'some' is not one of 'none', 'network',"),
        (("run", "chain.workload", "--trace", "chain.workload"), "is a file"),
        (("run", "chain.workload", "--trace", "chain.workload/x"), "can't be written: Not a dir"),
        (("generate", "loca"), "no generator is called 'loca'; there are local, tree, relocation"),
        (("generate", "tree", "--set", "brokers"), "--set brokers: expected KEY=VALUE"),
        (("generate", "tree", "--set", "brokers=x"), "tree: brokers='x' will not do"),
        (("generate", "tree", "--set", "speed=1"), "tree: unknown parameter 'speed'; there are"),
        (("generate", "tree", "--seed", "-1"), "greater than or equal to 0"),
        (("generate", "tree", "--set", "bars=no.csv"), "no.csv: No such file or directory"),
        (("generate", "tree", "--out", "no/x.workload"), "no/x.workload: No such file or direct"),
        (("generate", "--out", "x.workload"), "which generator? expected a NAME"),
        (("fuzz", "--seeds", "0"), "greater than or equal to 1"),
        (("fuzz", "--jobs", "0"), "greater than or equal to 1"),
        (("fuzz", "--profile", "some"), "'some' is not one of"),
        (("fuzz", "--seeds", "2", "--story", "P1:1"), "--story is for one seed; expected --seeds"),
        (("fuzz", "--seeds", "1", "--save", "chain.workload/x"), "chain.workload/x: Not a direct"),
    ],
)
def test_bad_arguments_are_refused(
    roost: Roost,
    chain: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(chain.parent)
    ran = roost("sim", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in " ".join(ran.err.split())


# --- generate -------------------------------------------------------------------------------------

SMALL = ("--set", "brokers=3", "--set", "publishers=2", "--set", "subscribers=5")


def test_generators_are_listed(roost: Roost) -> None:
    ran = roost("sim", "generate")
    assert (ran.code, ran.err) == (0, "")
    said = lines(ran)
    assert {"local", "tree", "relocation"} <= set(said)
    assert "distribution=random spread=10 brokers=63" in " ".join(said)
    assert max(map(len, ran.out.splitlines())) <= 100


def test_a_workload_to_standard_output(roost: Roost) -> None:
    ran = roost("sim", "generate", "tree", "--seed", 4, *SMALL)
    assert (ran.code, ran.err) == (0, "")
    said = ran.out.splitlines()
    assert said[0] == (
        "# roost sim generate tree --seed 4 --set brokers=3 --set publishers=2 --set subscribers=5"
    )
    assert said[1] == "0.0 federation set market_seed 4"
    assert said[-1] == "600.0 end"
    assert roost("sim", "generate", "tree", "--seed", 4, *SMALL).out == ran.out
    assert roost("sim", "generate", "tree", "--seed", 5, *SMALL).out != ran.out


def test_a_workload_to_a_file_runs(roost: Roost, tmp_path: Path) -> None:
    out = tmp_path / "tree.workload"
    ran = roost("sim", "generate", "tree", *SMALL, "--set", "until_s=20", "--out", out)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"wrote {out}: 14 statements, until 20 s\n"
    assert [p.name for p in tmp_path.iterdir()] == ["tree.workload"]
    ran = roost("sim", "run", out, "--json")
    assert ran.code == 0
    assert ran.json["summary"]["virtual_s"] == 20.0


def test_bars_are_found_from_where_the_file_is(
    roost: Roost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "out").mkdir()
    rows = [f"{symbol},10,11,9,10,{n + 1},5-Sep-96" for n in range(5) for symbol in "AB"]
    bars = tmp_path / "data" / "bars.csv"
    bars.write_text("\n".join(["symbol,open,high,low,close,volume,date", *rows]))
    monkeypatch.chdir(tmp_path / "data")
    more = (*SMALL, "--set", "until_s=20", "--set")
    assert (
        "0.0 market bars bars.csv" in roost("sim", "generate", "tree", *more, "bars=bars.csv").out
    )
    out = Path("../out/tree.workload")
    assert roost("sim", "generate", "tree", *more, "bars=bars.csv", "--out", out).code == 0
    assert "0.0 market bars ../data/bars.csv\n" in out.read_text()
    assert (
        roost("sim", "generate", "tree", *more, f"bars={bars}", "--out", "abs.workload").code == 0
    )
    assert f"0.0 market bars {bars}\n" in Path("abs.workload").read_text()
    monkeypatch.chdir(tmp_path)
    for path in ("out/tree.workload", "data/abs.workload"):
        assert roost("sim", "run", path).code == 0


# --- fuzz -----------------------------------------------------------------------------------------


def test_random_scenarios(roost: Roost) -> None:
    ran = roost("sim", "fuzz", "--seeds", 3, "--first", 2)
    assert (ran.code, ran.err) == (0, "")
    delivered = roost("sim", "fuzz", "--seeds", 3, "--first", 2, "--json").json
    assert delivered == {
        "profile": "all",
        "first": 2,
        "seeds": 3,
        "delivered": delivered["delivered"],
        "moves": delivered["moves"],
        "failures": [],
    }
    assert lines(ran)[-1] == (
        f"3 scenarios, {delivered['delivered']:,} deliveries checked, no violations"
    )
    none = roost("sim", "fuzz", "--seeds", 1, "--profile", "none")
    assert lines(none)[-1].startswith("1 scenario, ")


def test_a_number_of_seeds_that_looks_like_a_seed(
    roost: Roost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roost.simulation.campaign.campaign", lambda *_, **__: [])
    ran = roost("sim", "fuzz", "--seeds", 7777)
    said = "7,777 seeds, 0 to 7776; the one seed 7777 is --first 7777 --seeds 1"
    assert ran.err.splitlines()[0] == said
    assert "seed" not in roost("sim", "fuzz", "--seeds", 20).err


def test_as_many_scenarios_as_it_takes_for_so_many_moves(roost: Roost) -> None:
    arguments = ("sim", "fuzz", "--profile", "moves", "--first", 5)
    whole = roost(*arguments, "--moves", 60, "--json").json
    assert whole["seeds"] > 1
    assert whole["failures"] == []
    moves = whole["moves"]
    assert 60 <= moves["finished"]
    assert 0 < moves["migrated"] <= moves["finished"]
    # One less is not enough; and as many seeds give the same.
    less = roost(*arguments, "--seeds", whole["seeds"] - 1, "--json").json
    assert less["moves"]["finished"] < 60
    shown = lines(roost(*arguments, "--seeds", whole["seeds"]))
    assert shown[0].split() == ["moves", "finished", str(moves["finished"])]
    assert shown[1].startswith(f"of these {moves['migrated']} migrated")
    assert shown[2].split() == ["moves", "abandoned", str(moves["abandoned"])]
    both = roost(*arguments, "--seeds", 1, "--moves", 5)
    assert both.code == 2
    assert "expected one of them" in both.err


def test_several_processes_say_the_same(roost: Roost) -> None:
    one, two = (roost("sim", "fuzz", "--seeds", 4, "--jobs", jobs) for jobs in (1, 2))
    assert (two.code, two.err) == (0, "")
    assert one.out == two.out


def test_one_seed_tells_the_story_that_is_asked_for(roost: Roost) -> None:
    ran = roost("sim", "fuzz", "--first", 3, "--seeds", 1, "--story", "P1:1")
    assert ran.code == 0
    assert "The story of P1:1" in ran.out
    assert "publish P1:1" in ran.out


@pytest.mark.usefixtures("forgetful")
def test_a_failing_seed_can_be_replayed(roost: Roost, tmp_path: Path) -> None:
    folder = tmp_path / "failed"
    ran = roost("sim", "fuzz", "--seeds", 8, "--save", folder)
    assert ran.code == 1
    said = lines(ran)
    assert said[0].startswith("seed ")
    seed = int(said[0].split()[1])
    # Long ones go over several lines.
    violation = said[1]
    publication = violation.split(",")[0]
    assert publication.endswith(":12")
    replay = f"roost sim fuzz --first {seed} --seeds 1 --story {publication}"
    assert f"replay: {replay}" in said
    failed = sum(line.startswith("seed ") for line in said)
    assert said[-1].endswith(f"deliveries checked, violations in {failed}")

    again = lines(roost(*replay.split()[1:]))
    assert violation in again
    story = again[again.index(f"The story of {publication}") + 1 :]
    assert any(f"publish {publication}" in line for line in story)
    assert lines(roost(*replay.split()[1:-2])) == again

    saved = folder / f"fuzz-all-{seed}.workload"
    assert f"saved: {saved}" in said
    whole = roost("sim", "run", saved, "--json")
    assert whole.code == 1
    one = ("--first", seed, "--seeds", 1)
    failures = roost("sim", "fuzz", *one, "--save", folder, "--json")
    assert failures.code == 1
    (failure,) = failures.json["failures"]
    assert failure["checks"] == whole.json["checks"]
    assert failure == {**failure, "seed": seed, "replay": replay, "saved": str(saved)}


def test_a_saved_scenario_keeps_its_settings(roost: Roost, tmp_path: Path) -> None:
    from roost.cli.sim.command import save_scenario
    from roost.simulation.fuzz import Scenario

    paths = [save_scenario(seed, "network", tmp_path) for seed in range(5)]
    for seed, path in enumerate(paths):
        scenario = Scenario(seed, "network")
        read = read_workload(path)
        assert read.settings == scenario.settings
        assert read.statements == tuple(scenario.statements)
    assert roost("sim", "run", paths[0]).code == 0


def test_a_bar_is_for_terminals_only(
    roost: Roost, chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = roost("sim", "run", chain)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    ran = roost("sim", "run", chain)
    assert "virtual seconds" in ran.err
    assert len(ran.out.splitlines()) == len(without.out.splitlines())
    assert "scenarios" in roost("sim", "fuzz", "--seeds", 2).err
