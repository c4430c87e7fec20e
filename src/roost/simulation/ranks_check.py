"""Whether the links of a workload form a hierarchy, where brokers have ranks (`broker.hierarchy`).

Of a link the first broker is the super of the second, unless they are peers. Everybody has one super at most;
peers have none, and each is linked with every other that it can be reached from. Optimisers that know trees
only have no place there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from roost.broker.registry import module_class, objection_to_ranks
from roost.simulation.statements import AddLink, AddPeerLink, Set, Statement, UseOptimiser
from roost.simulation.workload_check import refusal


def check_ranks(statements: Sequence[Statement], name: str, *, ranked: bool) -> None:
    """Refuse links that are those of no hierarchy. (Links that are removed later count, too.)"""
    supers: dict[str, str] = {}
    peers: dict[str, dict[str, AddPeerLink]] = {}
    for s in statements:
        if isinstance(s, AddPeerLink):
            if not ranked:
                raise refusal(
                    name,
                    s.line,
                    f"{s.a} and {s.b} are peers; expected `federation set routing cluster`",
                )
            peers.setdefault(s.a, {})[s.b] = peers.setdefault(s.b, {})[s.a] = s
        elif ranked and (optimiser := _optimiser(s)):
            if objection := objection_to_ranks(module_class(optimiser)):
                raise refusal(name, s.line, objection)
        elif isinstance(s, AddLink) and ranked and supers.setdefault(s.b, s.a) != s.a:
            what = f"{s.b} is below {s.a} and below {supers[s.b]}; expected one super at most"
            raise refusal(name, s.line, what)
    for here, theirs in peers.items():
        if here in supers:
            line = next(iter(theirs.values())).line
            what = f"{here} is a peer, and below {supers[here]}; expected peers at the top only"
            raise refusal(name, line, what)
        for one, other in combinations(theirs, 2):
            if other not in peers[one]:
                what = f"{one} and {other} are peers of {here}; expected a link between the two, as well"
                raise refusal(name, theirs[other].line, what)


def _optimiser(s: Statement) -> str:
    """The one that a statement asks for; "" if none."""
    if isinstance(s, UseOptimiser):
        return s.reference
    if isinstance(s, Set) and s.key == "optimiser" and s.value != "none":
        return s.value
    return ""
