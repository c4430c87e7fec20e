"""What a cell of the experiments of 000 runs: the workload, its latencies, and who relocates.

What figure 4b said of the set-up is lost with it. `docs/EXPERIMENTS.md` has what stands in its place.

Latencies are *constant* (a data centre's, say), or those of a matrix: a synthetic wide-area network from the
cell's seed, or a file. A simulated client is equally far from all brokers. With a matrix that is half of the
median round trip: a publisher that moves to a broker at the other end of the world stays where it is.

Publishers publish regularly, as in the paper, each from a random moment on. With *random* arrivals the gaps
between publications are exponential, so that queues are those of many independent sources. Quotes come in the
order of the *market*, in which wild days follow wild days: what a publisher's audience is changes from minute
to minute. *Shuffled*, they are stationary traffic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.broker.module import Module
from roost.errors import UserError
from roost.experiments.relocation.wide_area import wide_area
from roost.relocation import Goal, Grape, GrapeConfig, Pop, PopConfig
from roost.simulation import statements as st
from roost.simulation.generators import relocation
from roost.simulation.generators.parts import draws
from roost.simulation.latencies import read_matrix
from roost.simulation.market import BarMarket, Market, SyntheticMarket
from roost.simulation.settings import Settings, settings_with
from roost.simulation.workload_file import Workload

Arrivals = Literal["regular", "random"]
Order = Literal["market", "shuffled"]
CONSTANT, WIDE_AREA = "constant", "wide-area"
# One way, with constant latencies.
LINK_MS, CLIENT_MS = 10.0, 1.0
BASELINE, POP = "baseline", "pop"
_grape = re.compile(r"(?P<priority>load|delay)(?P<weight>[0-9]{1,3})").fullmatch


class Setup(Struct, frozen=True, kw_only=True):
    """A cell, as far as it decides the run."""

    distribution: Literal["clustered", "random"]
    spread: int
    variant: str
    threshold: int  # P_threshold or G_threshold; 0 for the default
    latencies: str
    arrivals: Arrivals
    order: Order
    brokers: int
    publishers: int
    subscribers: int  # a publisher
    rate_per_min: float
    cpu_mhz: float
    until_s: float
    bars: str


# --- who relocates ----------------------------------------------------------------------------------


def check_variant(name: str) -> None:
    """A `UserError` if no variant is called so."""
    modules_of(name, 0, 0)


def modules_of(variant: str, threshold: int, seed: int) -> Callable[[str], Sequence[Module]]:
    """The modules of each broker; a threshold of 0 is the default one."""
    if variant == BASELINE:
        return lambda _: ()
    if variant == POP:
        pop = PopConfig(seed=seed)
        if threshold:
            # Of a window no more than half of the threshold is traced (000 section 5.2).
            half = max(threshold // 2, 1)
            pop = msgspec.structs.replace(pop, traces=threshold, traced_max=half)
        return lambda _: [Pop(pop)]
    found = _grape(variant)
    if found is None or int(found["weight"]) > 100:
        raise UserError(
            f"no variant is called {variant!r}; expected {BASELINE}, {POP}, or GRAPE's priority and"
            " weight: load0 to load100, delay0 to delay100"
        )
    priority: Literal["load", "delay"] = "load" if found["priority"] == "load" else "delay"
    grape = GrapeConfig(goal=Goal(priority, float(found["weight"])))
    if threshold:
        grape = msgspec.structs.replace(grape, session=threshold)
    return lambda _: [Grape(grape)]


# --- what happens -----------------------------------------------------------------------------------


class Prepared(NamedTuple):
    """A workload that can be run, while the folder of its matrix is there."""

    workload: Workload
    modules: Callable[[str], Sequence[Module]]
    client_latency_s: float


@contextmanager
def prepared(setup: Setup, seed: int) -> Iterator[Prepared]:
    """The workload of a cell."""
    statements = relocation(
        seed,
        distribution=setup.distribution,
        spread=setup.spread,
        brokers=setup.brokers,
        cpu_mhz=setup.cpu_mhz,
        publishers=setup.publishers,
        subscribers_per_publisher=setup.subscribers,
        rate_per_min=setup.rate_per_min,
        until_s=setup.until_s,
        bars=setup.bars,
    )
    settings = Settings()
    for statement in statements:
        if isinstance(statement, st.Set):
            settings = settings_with(settings, statement.key, statement.value)
    told = [s for s in statements if not isinstance(s, st.Set)]
    if (setup.arrivals, setup.order) != ("regular", "market"):
        told = list(published(told, setup, seed))
    with TemporaryDirectory(prefix="roost-experiment-") as folder:
        client_ms = CLIENT_MS
        if setup.latencies != CONSTANT:
            matrix = matrix_of(setup.latencies, setup.brokers, seed)
            client_ms = float(np.median(matrix[~np.eye(len(matrix), dtype=bool)])) / 2
            path = Path(folder) / "latencies.npz"
            np.savez(path, rtt_ms=matrix)
            told.insert(0, st.UseLatencies(at=0.0, path=str(path)))
        settings = msgspec.structs.replace(
            settings, link_latency_ms=LINK_MS, client_latency_ms=client_ms
        )
        yield Prepared(
            Workload("relocation", settings, tuple(told)),
            modules_of(setup.variant, setup.threshold, seed),
            client_ms / 1e3,
        )


def matrix_of(latencies: str, brokers: int, seed: int) -> NDArray[np.float64]:
    """Round trips in ms: of a file, or made up."""
    if latencies == WIDE_AREA:
        return wide_area(brokers, seed)
    return read_matrix(Path(latencies))


def published(
    statements: Iterable[st.Statement], setup: Setup, seed: int
) -> Iterable[st.Statement]:
    """The same publishers, told one by one what to publish and when."""
    market: Market = (
        BarMarket(setup.bars) if setup.bars else SyntheticMarket(seed, setup.publishers)
    )
    rng = draws(seed, "relocation publications")
    told: list[st.Statement] = []
    for statement in statements:
        if not isinstance(statement, st.AddPublisher) or statement.symbol is None:
            told.append(statement)
            continue
        told.append(msgspec.structs.replace(statement, rate_per_min=0.0))
        gap_s = 60 / statement.rate_per_min
        number = ceil(setup.until_s / gap_s)
        if setup.arrivals == "random":
            # More than enough of them; what comes behind the end is left out.
            gaps = rng.exponential(gap_s, 2 * number + 100)
        else:
            gaps = np.full(number, gap_s)
            gaps[0] *= rng.random()
        times = (statement.at + np.cumsum(gaps)).round(6)
        times = times[times <= setup.until_s]
        # The bounds of subscriptions are quantiles of just as many quotes.
        order = np.arange(len(times))
        if setup.order == "shuffled":
            order = rng.permutation(number)[order % number]
        told += (
            st.Publish(
                at=time, publisher=statement.publisher, event=market.quote(statement.symbol, n)
            )
            for time, n in zip(times.tolist(), order.tolist(), strict=True)
        )
    return sorted(told, key=lambda s: s.at)
