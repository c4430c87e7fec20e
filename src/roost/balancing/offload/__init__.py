"""Which subscribers are to move from one broker to another (001 section 4.2).

    offload = choose(Action.INPUT, own, other, spectrum, config)

| module | what it holds |
| --- | --- |
| `by_input`, `by_match`, `by_output` | the three algorithms |
| `counting` | how many subscribers of each subscription: figures 4.1, 4.5, 4.6, 4.8, and the bounds |
| `selection` | which report card: figures 4.2 and 4.3 |
| `relations` | what covers what |
| `scales`, `run` | both brokers and all candidates, as choices change them |
| `literal` | the figures as printed, loop by loop: what all of this is held to |
"""

from roost.balancing.offload.choosing import choose
from roost.balancing.offload.relations import SubscriptionPoset

__all__ = ["SubscriptionPoset", "choose"]
