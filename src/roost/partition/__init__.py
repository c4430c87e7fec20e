"""The partitioned service (004, BlueDove): dispatchers and matchers that scale out.

Decisions, which are pure functions: `dimensions` (where events and subscriptions are), `segments`
(mPartition: who has which part, who can match what), `handover` (matchers come and go), `forwarding` (which
candidate), `attributes` (which attributes are worth a dimension), `fluid` and `capacity` (the best that any
forwarding could do, and what a workload saturates at), `accrual` and `gossip` (who is there).

Machines, which carry them out: `Dispatcher` and `Matcher`. docs/PARTITION.md.
"""

from roost.partition.attributes import DimensionChoice, choose_dimensions
from roost.partition.capacity import Saturation, saturation
from roost.partition.dimensions import Dimension, footprint_of, point_of
from roost.partition.dispatcher import Dispatcher
from roost.partition.fluid import Optimum, optimum
from roost.partition.forwarding import POLICIES, Pace, Sight, choose
from roost.partition.handover import first_table, forget, join_each, join_one, leave, switch
from roost.partition.matcher import Matcher
from roost.partition.segments import Option, SegmentTable, options, regions_of, spare_options

__all__ = [
    "POLICIES",
    "Dimension",
    "DimensionChoice",
    "Dispatcher",
    "Matcher",
    "Optimum",
    "Option",
    "Pace",
    "Saturation",
    "SegmentTable",
    "Sight",
    "choose",
    "choose_dimensions",
    "first_table",
    "footprint_of",
    "forget",
    "join_each",
    "join_one",
    "leave",
    "optimum",
    "options",
    "point_of",
    "regions_of",
    "saturation",
    "spare_options",
    "switch",
]
