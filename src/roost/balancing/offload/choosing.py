"""The one entry: an action, two brokers and what PRESS has found; who is to move.

An input offload of an overloaded broker that leaves it overloaded goes on as a match offload (4.2.1): one
subscription may attract so much that nobody can accept it, and then fewer others make matching faster at
least. A broker that is not overloaded does not in the thesis, as the other would send them back. With
`Rules.input_goes_on` it does: often one subscription covers all others, and is all that the input offload
considers; if its output is too much for the other, nothing would move at all. Then those with the least
traffic go, until the inputs are balanced: if subscriptions take so much of the input ratio that this can be.
"""

from __future__ import annotations

from roost.balancing.cards import LoadReport, Offload, Spectrum
from roost.balancing.indices import Action
from roost.balancing.offload.by_input import by_input
from roost.balancing.offload.by_match import by_match
from roost.balancing.offload.by_output import by_output
from roost.balancing.offload.relations import SubscriptionPoset
from roost.balancing.offload.run import Run
from roost.balancing.settings import BalancingConfig

ALGORITHMS = {Action.INPUT: by_input, Action.MATCH: by_match, Action.OUTPUT: by_output}


def choose(
    action: Action,
    own: LoadReport,
    other: LoadReport,
    spectrum: Spectrum,
    config: BalancingConfig,
    *,
    is_overloaded: bool = False,
    poset: SubscriptionPoset | None = None,
) -> Offload:
    """Who is to move from `own` to `other`, so that the index of that action is balanced.

    A broker that keeps the poset of its subscriptions is faster from the second time on.
    """
    if poset is None:
        poset = SubscriptionPoset()
    run = Run(own, other, spectrum, config, poset, is_overloaded=is_overloaded)
    before, other_before = run.scales.own.indices(), run.scales.other.indices()
    ended = ALGORITHMS[action](run)
    if action is Action.INPUT and _goes_on(run):
        balanced = Action.MATCH if is_overloaded else Action.INPUT
        ended = f"{ended}; then match: {by_match(run, balanced)}"
    return Offload(
        action=action,
        is_overloaded=is_overloaded,
        clients=tuple(
            client
            for card in run.cards
            for client in spectrum.loads[card.subscription].clients[: card.subscribers]
        ),
        cards=tuple(run.cards),
        considered=run.considered,
        ended=ended,
        own=before,
        other=other_before,
        own_predicted=run.scales.own.indices(),
        other_predicted=run.scales.other.indices(),
    )


def _goes_on(run: Run) -> bool:
    """Whether an input offload that has ended is to go on with those who get the least."""
    own, config = run.scales.own, run.config
    if run.is_overloaded:
        return own.indices().input_ratio >= config.overload_low
    if config.rules.input_goes_on == "overloaded" or run.is_balanced(Action.INPUT):
        return False
    matching = own.input_rate * own.subscription_s * own.subscriptions
    return own.input_factor * matching >= config.local_ratio_threshold
