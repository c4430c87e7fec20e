"""Workloads from a seed: the set-ups of the papers as lists of statements.

`local` is that of 001 section 5.2.1, `global` that of section 5.2.2, `relocation` that of 000 section 5.1,
and `tree` the thesis' clients on a balanced tree. The same seed and parameters give the same statements,
anywhere. Their constants (bounds of prices and volumes) come from the quotes of `SyntheticMarket(seed)`, or
of the file that the parameter `bars` names. The workload says which market it is, so that its publishers
quote from the same.
"""

from roost.simulation.generators.clusters import global_
from roost.simulation.generators.parameters import Parameter
from roost.simulation.generators.registry import GENERATORS, Generator, generate
from roost.simulation.generators.relocation import relocation
from roost.simulation.generators.thesis import (
    TEMPLATES,
    ThesisSubscriptions,
    local,
    thesis_publishers,
    tree,
)

__all__ = [
    "GENERATORS",
    "TEMPLATES",
    "Generator",
    "Parameter",
    "ThesisSubscriptions",
    "generate",
    "global_",
    "local",
    "relocation",
    "thesis_publishers",
    "tree",
]
