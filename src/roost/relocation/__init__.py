"""Publisher relocation (000): clients move to where their messages go, and the overlay stays as it is.

Decisions, which are pure functions of statistics: `grape` chooses a broker for a publisher, `subscribers`
one for a group of subscribers, `pop` asks for a publisher broker by broker, and `choosing` says whether to
move at all. `literal` and `brute_force` are what the first two are held to.

Protocols, which gather the statistics and carry the choice out: `Grape` (`grape_module`, with `sessions` and
`collecting`) and `Pop` (`pop_module`), modules of a broker.
"""

from roost.optimising.bitvector import BitVector
from roost.optimising.goal import Goal
from roost.optimising.worth import Metric, Terms, Verdict
from roost.relocation.brute_force import group_everywhere, publisher_everywhere
from roost.relocation.choosing import Candidate, Choice, worth
from roost.relocation.grape import choose_broker
from roost.relocation.grape_module import Grape, GrapeConfig
from roost.relocation.pop import Profile, Request, TraceWindow, is_due, next_step
from roost.relocation.pop_module import Pop, PopConfig
from roost.relocation.statistics import Answer, Neighbour, Trace
from roost.relocation.subscribers import Source, choose_broker_for_group
from roost.relocation.tree import BadAnswersError

__all__ = [
    "Answer",
    "BadAnswersError",
    "BitVector",
    "Candidate",
    "Choice",
    "Goal",
    "Grape",
    "GrapeConfig",
    "Metric",
    "Neighbour",
    "Pop",
    "PopConfig",
    "Profile",
    "Request",
    "Source",
    "Terms",
    "Trace",
    "TraceWindow",
    "Verdict",
    "choose_broker",
    "choose_broker_for_group",
    "group_everywhere",
    "is_due",
    "next_step",
    "publisher_everywhere",
    "worth",
]
