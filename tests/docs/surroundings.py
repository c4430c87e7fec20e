"""What pieces of Python in the documents take for granted: names, files, and an application around them.

Where a piece would take minutes, or wants a broker at the usual port, some of its words are replaced:
`instead` has the words as they stand in the document and those that are run, so that both are seen here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import Phase, find, settings
from hypothesis.strategies import SearchStrategy

import roost
from roost.cli import main as cli

T = TypeVar("T")
Names = dict[str, Any]


class Surroundings(NamedTuple):
    """What is around the piece that begins so."""

    begins: str
    prepare: Callable[[Names], None]
    judge: Callable[[Names], None] = lambda _: None
    instead: tuple[tuple[str, str], ...] = ()
    is_async: bool = False  # a part of a coroutine that has a client

    async def drive(self, names: Names) -> None:
        """Run it with a client of a broker in memory."""
        async with memory_client() as client:
            await names["main"](client)


@asynccontextmanager
async def memory_client() -> AsyncIterator[roost.Client]:
    async with roost.connect("memory://") as client:
        yield client


def nothing(_: Names) -> None:
    """It brings all that it needs."""


def workload(_: Names) -> None:
    """tree.workload as README makes it, but smaller."""
    sizes = {"brokers": 3, "publishers": 2, "subscribers": 12, "until_s": 5}
    words = [word for item in sizes.items() for word in ("--set", f"{item[0]}={item[1]}")]
    run("sim", "generate", "tree", "--seed", "1", *words, "--out", "tree.workload")


def run(*arguments: str) -> None:
    """`roost ARGUMENTS`."""
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert not stop.value.code


def any_of(worlds: SearchStrategy[T], is_fine: Callable[[T], bool]) -> T:
    """One of those worlds that tests are played in."""
    quickly = settings(max_examples=50, phases=[Phase.generate], database=None, deadline=None)
    return find(worlds, is_fine, settings=quickly)


def traces(names: Names) -> None:
    """A run of it, recorded."""
    workload(names)
    run("sim", "run", "tree.workload", "--trace", "traces")


def balancing(names: Names) -> None:
    """A broker that has more to do than another one."""
    from roost.balancing import (
        Action,
        BalancingConfig,
        BrokerIndices,
        Indices,
        PieEntry,
        Status,
        choose,
        detect,
    )
    from roost.balancing.costs import OwnLoad
    from roost.broker.events import LoadIndices
    from tests.balancing.worlds import worlds

    config = BalancingConfig()
    world = any_of(worlds(), lambda _: True)
    load = LoadIndices(0.9, 0.01, 0.2, 90.0, 40.0, 4e3, 0, 0, 0.0, 0.0, 0.9, 1e6, 1e9, 20)
    names |= {
        "Action": Action,
        "choose": choose,
        "detect": detect,
        "config": config,
        "own_load": OwnLoad(config),
        "load": load,
        "indices": BrokerIndices(0.9, 0.2, 0.01, 0.5, 0.1),
        "status": Status.OK,
        "entries": [PieEntry("B2", Status.OK, Indices(0.1, 0.1, 0.001))],
        "reply": world.other,
        "spectrum": world.spectrum,
    }


def mesh(names: Names) -> None:
    from roost.broker.station import Station

    names["Station"] = Station


def mesh_is_one(names: Names) -> None:
    from tests.example.mesh import Mesh

    made, ours = names["Mesh"], Mesh
    assert issubclass(made, names["Station"])
    assert {name for name in vars(made) if name[0] != "_" or name == "_pass"} == {
        name for name in vars(ours) if (name[0] != "_" or name == "_pass") and name != "costs"
    }


def orders(names: Names) -> None:
    names["orders_after"] = lambda last: [(n, {"class": "ORDER", "n": n}) for n in (last + 1,)]


def flows(names: Names) -> None:
    import numpy as np

    from roost.overlay.rewiring.demand import demand_of
    from roost.overlay.rewiring.flows import flows_of
    from roost.overlay.topologies import chain

    topology = chain(5)
    names |= {
        "demand_of": demand_of,
        "flows_of": flows_of,
        "topology": topology,
        "brokers": topology.brokers,
        "origin": np.array([0, 0, 4]),
        "wanted": np.array([[0, 0, 0, 0, 1], [0, 1, 0, 0, 0], [2, 0, 0, 0, 0]]),
    }


def relocation(names: Names) -> None:
    from roost.optimising.goal import Goal
    from roost.relocation.choosing import worth
    from roost.relocation.grape import choose_broker
    from roost.relocation.statistics import Trace
    from tests.relocation.worlds import worlds

    world = any_of(worlds(), lambda world: len(world.names) > 2)
    names |= {"choose_broker": choose_broker, "Trace": Trace, "Goal": Goal, "worth": worth}
    names["answers"] = world.answers


def chosen(names: Mapping[str, Any]) -> None:
    assert names["choice"].present.broker == "B1"
    assert names["verdict"].reason


def found(names: Names) -> None:
    """As the comments beside it say."""
    assert names["offsets"].tolist() == [0, 2, 2]
    assert sorted(names["ids"].tolist()) == [2, 3]


SURROUNDINGS = (
    # README.md
    Surroundings(
        "import asyncio, roost",
        nothing,
        instead=(('"roost://127.0.0.1:7411"', '"memory://"'),),
    ),
    Surroundings(
        "from pathlib import Path\n\nfrom roost.broker.module import Module",
        workload,
        instead=(("fuzz(20, ", "fuzz(1, "),),
    ),
    Surroundings("from roost.language import Event, parse_filter", nothing, found),
    # docs/
    Surroundings("report = own_load.report(load)", balancing),
    Surroundings("class Mesh(Station):", mesh, mesh_is_one),
    Surroundings('async with client.outbox("orders"', orders, is_async=True),
    Surroundings("demand = demand_of(brokers, origin, wanted)", flows),
    Surroundings("choice = choose_broker(answers", relocation, chosen),
    Surroundings("import pyarrow.dataset as ds", traces),
    Surroundings("from pathlib import Path\n\nfrom roost.broker.story", workload),
)
