"""The kit that Roost is tested with, for what others build on it: modules, routers, applications.

A module or a router is run in virtual time by `simulate`, which takes a workload, with faults if wanted,
and by `fuzz`, which makes one of each seed. Every delivery and every table is checked in both:

    from roost.testing import fuzz, simulate

    simulate(WORKLOAD, modules=lambda broker: [Crowd()], faults="network", seed=3).assert_clean()
    fuzz(50, modules=lambda broker: [Crowd()]).assert_clean()

An application is run against brokers in the same process, without ports or waiting times, by
`memory_federation`. docs/TESTING.md is the manual. Nothing here needs a framework for tests.
"""

from roost.simulation.faults import PROFILES
from roost.simulation.run import Checks
from roost.simulation.workload_file import Workload
from roost.testing.federation import MemoryFederation, memory_federation, until
from roost.testing.fuzzing import Failure, Fuzzed, fuzz
from roost.testing.laboratory import NotedDecision, Receipt, Simulation, simulate
from roost.testing.parts import Oracle, Party, Scenario, World
from roost.testing.steps import check, parse_workload, read_workload, rest, run

__all__ = [
    "PROFILES",
    "Checks",
    "Failure",
    "Fuzzed",
    "MemoryFederation",
    "NotedDecision",
    "Oracle",
    "Party",
    "Receipt",
    "Scenario",
    "Simulation",
    "Workload",
    "World",
    "check",
    "fuzz",
    "memory_federation",
    "parse_workload",
    "read_workload",
    "rest",
    "run",
    "simulate",
    "until",
]
