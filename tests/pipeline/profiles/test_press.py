"""PRESS from a trace has what the balancers sampled on-line (001 section 4.1.1), on simulated runs."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from roost.balancing import Balancing
from roost.balancing.mediation import Mediator
from roost.balancing.press import Press
from roost.optimising.bitvector import BitVector
from roost.pipeline.lake import Lake
from roost.pipeline.profiles import press_spectra
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from roost.traces import TraceWriter
from tests.balancing.clusters import HURRIED, cluster
from tests.pipeline.profiles.runs import rows
from tests.pipeline.test_comparison import table

# Clients where others are to go.
BESIDES = (
    "1.9 subscriber add T0 B2 class = 'STOCK' and symbol = 'AAA'",
    "1.9 subscriber add T1 B3 class = 'STOCK' and volume > 20000",
)


class Sampled(NamedTuple):
    """What was sampled at a broker for another one."""

    broker: str
    other: str
    first: float  # when the first publication was routed, and the last
    last: float
    taken: int
    bits: dict[str, BitVector]
    kept: BitVector
    css: BitVector


def recorded(folder: Path, name: str, seed: int, patch: pytest.MonkeyPatch) -> list[Sampled]:
    """A run of a cluster that balances; what PRESS had whenever it had taken all its samples."""
    found: list[Sampled] = []
    times: dict[int, list[float]] = {}
    routed, choose = Press.routed, Mediator._choose

    def note(press: Press, visit: object) -> bool:
        times.setdefault(id(press), []).append(world.clock.now)
        return routed(press, visit)  # type: ignore[arg-type]

    def note_all(mediator: Mediator, session: object, now: float) -> None:
        press = session.press  # type: ignore[attr-defined]
        seen = times.pop(id(press), [])[: press._taken]
        if seen:
            found.append(
                Sampled(
                    mediator._around.broker,
                    session.partner,  # type: ignore[attr-defined]
                    seen[0],
                    seen[-1],
                    press._taken,
                    dict(press._bits),
                    press._kept,
                    press._css,
                )
            )
        choose(mediator, session, now)  # type: ignore[arg-type]

    workload = parse_workload("\n".join([*cluster(), *BESIDES]), "cluster", None)
    with patch.context() as patched, TraceWriter(folder, name) as trace:
        patched.setattr(Press, "routed", note)
        patched.setattr(Mediator, "_choose", note_all)
        world = World(
            workload.settings,
            workload.statements,
            seed=seed,
            trace=trace,
            modules=lambda _: (Balancing(HURRIED),),
        )
        world.run(60)
    return found


def overlap(one: BitVector, other: BitVector) -> int:
    return one.count() - (one - other).count()


def test_as_sampled_on_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each sampling what came there meanwhile, and what clients got elsewhere."""
    sampled = [
        (f"run-{seed}", each)
        for seed in range(3)
        for each in recorded(tmp_path, f"run-{seed}", seed, monkeypatch)
    ]
    frames = [
        Lake(tmp_path)
        .read(spark, "deliveries", run)
        .where(f"broker != '{each.broker}' or time between {each.first!r} and {each.last!r}")
        .drop("run")
        .withColumns({name: F.concat_ws("/", F.lit(n), name) for name in ("broker", "publisher")})
        for n, (run, each) in enumerate(sampled)
    ]
    spectra = press_spectra().of(reduce(DataFrame.unionByName, frames))
    found = {(row["broker"], row["client"]): row for row in rows(spectra)}
    shared = 0
    for n, (_, each) in enumerate(sampled):
        here = {client for broker, client in found if broker == f"{n}/{each.broker}"}
        assert here == each.bits.keys()
        for client, bits in each.bits.items():
            row = found[f"{n}/{each.broker}", client]
            assert (row["samples"], row["matched"]) == (each.taken, bits.count())
            assert row["kept"] == overlap(bits, each.kept)
            assert row["shared"].get(f"{n}/{each.other}", 0) == overlap(bits, each.css)
            shared += row["shared"].get(f"{n}/{each.other}", 0)
    assert len(sampled) > 3
    assert shared > 20


def visits(spark: SparkSession, *seen: tuple[int, str, list[str], list[str]]) -> DataFrame:
    """(sequence, broker, clients, neighbours), one a second."""
    told = [
        {
            "publisher": "P",
            "sequence": sequence,
            "broker": broker,
            "source": "B0",
            "from_client": False,
            "neighbours": neighbours,
            "clients": [{"client": name, "subscriptions": ["s"]} for name in clients],
            "time": n,
        }
        for n, (sequence, broker, clients, neighbours) in enumerate(seen)
    ]
    return table(spark, "deliveries", told)


def test_by_hand_and_in_parts(spark: SparkSession) -> None:
    """Publications 1 to 3 and 70, which is in another word; B2 has the last two."""
    seen = [
        (1, "B1", ["S1"], ["B2"]),
        (2, "B1", ["S1", "S2"], []),
        (3, "B1", ["S1"], []),
        (3, "B2", ["S3"], []),
        (70, "B1", ["S1"], []),
        (70, "B2", ["S3", "S4"], []),
        (71, "B1", [], ["B3"]),
    ]
    profile = press_spectra()
    whole = {row["client"]: row for row in rows(profile.of(visits(spark, *seen)))}
    first = whole["S1"]
    assert (first["samples"], first["matched"], first["kept"]) == (5, 4, 1)
    assert first["shared"] == {"B2": 2}
    assert (first["since"], first["until"]) == (0.0, 6.0)
    assert (whole["S2"]["matched"], whole["S2"]["shared"]) == (1, {})
    assert whole["S4"]["shared"] == {"B1": 1}
    parts = [profile.sums(visits(spark, *part)) for part in (seen[:3], seen[3:])]
    again = {row["client"]: row for row in rows(profile.merged(parts[0].unionByName(parts[1])))}
    # The second part begins its clock anew.
    assert {c: row["matched"] for c, row in again.items()} == {
        c: row["matched"] for c, row in whole.items()
    }
    assert again["S1"]["shared"] == first["shared"]
