"""Which actions would lower nothing: an index that a move can't lower is not balanced.

The thesis' brokers take longer for each subscription that they have, so fewer are always a relief. A live
broker's matcher hardly slows down. Its matching delay is high when little comes in, as what it does anyway is
shared by few; and its processor is busy with what comes and goes, not with the subscriptions. To move those
that get the least, as the match offload does, would change neither. With costs that are fitted it is known
beforehand.
"""

from __future__ import annotations

from roost.balancing.cards import LoadReport
from roost.balancing.detection import overload_of
from roost.balancing.estimation import model_of
from roost.balancing.indices import Action, BrokerIndices
from roost.balancing.settings import BalancingConfig


def futile_actions(
    report: LoadReport, own: BrokerIndices, config: BalancingConfig
) -> tuple[Action, ...]:
    """The actions that `detect` need not consider: with all subscriptions gone, too little would change.

    Enough is what brings an overloaded processor or memory to the lower threshold, or else the matching
    delay down by the threshold from which it is balanced.
    """
    if config.rules.costs != "fitted":
        return ()
    model, low = model_of(report), config.overload_low
    matching_s = model.subscription_s * model.subscriptions
    overload = overload_of(own, config)
    if overload is not None and overload.resource == "cpu":
        can = model.cpu_factor * model.input_rate * matching_s >= own.cpu_ratio - low
    elif overload is not None and overload.resource == "memory":
        total = model.memory_total_bytes
        held = model.memory_a_subscription_bytes * model.subscriptions
        can = bool(total) and held / total >= own.memory_ratio - low
    else:
        can = matching_s >= config.local_delay_threshold * config.delay_normalisation_s
    return () if can else (Action.MATCH,)
