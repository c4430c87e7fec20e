"""A film of a small overlay: the paper's algorithm and Roost's own, from the same start, round by round."""

from __future__ import annotations

from random import Random

from roost.experiments.overlay.organising import Terms, rule_of, state_of
from roost.experiments.overlay.workload import Load, load_of, tree_of
from roost.overlay.rewiring.flows import Flows, flows_of
from roost.overlay.rewiring.limits import Limits
from roost.overlay.rewiring.rounds import Organisation
from roost.papers import PAPERS
from roost.pictures.films import Film, Frame, film_page

BROKERS, SEED, LIMIT = 60, 3, 30
FRAMES_MAX = 40
TITLES = {"paper": PAPERS["002"].short, "roost": f"Roost's own, at most {LIMIT} neighbours"}


def films() -> dict[str, str]:
    """The page, by its name."""
    load = load_of(
        SEED, matching="topic", brokers=BROKERS, subscribers=0.6, publishers=0.2, publications=50
    )
    lead = (
        f"{BROKERS} brokers from a scale-free start, six tenths of them with subscribers, a fifth with"
        " publishers. Each step is a round: training, then rewirings with three brokers locked."
    )
    shown = [_film(load, variant, title) for variant, title in TITLES.items()]
    return {"film.html": film_page("An overlay organises itself", lead, shown)}


def _film(load: Load, variant: str, title: str) -> Film:
    terms = Terms(degree_max=LIMIT if variant == "roost" else None)
    flows = flows_of(tree_of("scale-free", BROKERS, SEED), load.demand)
    limits = Limits(degree_max=terms.degree_max)
    organisation = Organisation(flows, rule_of(variant, load, terms), Random(SEED), limits)
    frames, rewirings = [_frame(flows, 0, 0)], 0
    while done := organisation.round():
        rewirings += len(done)
        frames.append(_frame(flows, len(frames), rewirings))
    degrees = flows.degrees()
    return Film(
        title,
        flows.brokers,
        {name: _kind(load, broker) for broker, name in enumerate(flows.brokers)},
        flows.brokers[degrees.index(max(degrees))],
        tuple(_thinned(frames)),
    )


def _frame(flows: Flows, number: int, rewirings: int) -> Frame:
    state = state_of(flows, rewirings)
    traffic: dict[tuple[str, str], float] = {}
    for (a, b), count in flows.counters().items():
        pair = (a, b) if (b, a) not in traffic else (b, a)
        traffic[pair] = traffic.get(pair, 0) + count
    return Frame(
        f"round {number}: {rewirings} rewirings, {state.traffic:,} messages,"
        f" {100 * (state.traffic / state.bound - 1):.1f} % above the bound",
        traffic,
    )


def _kind(load: Load, broker: int) -> str:
    if load.published[broker].any():
        return "publisher"
    return "subscriber" if load.asked[broker] else "relay"


def _thinned(frames: list[Frame]) -> list[Frame]:
    """As many as a page can do with, the first and the last among them."""
    if len(frames) <= FRAMES_MAX:
        return frames
    return [frames[round(i * (len(frames) - 1) / (FRAMES_MAX - 1))] for i in range(FRAMES_MAX)]
