"""The evaluation of 004 (the partitioned service): what it bears, which policy reaches how much, how evenly
matchers are loaded, how it takes other workloads, rising rates and crashes, and what it says to itself."""

from roost.experiments.partition.balance import BALANCE
from roost.experiments.partition.elastic import ELASTIC
from roost.experiments.partition.faults import FAULTS
from roost.experiments.partition.overhead import OVERHEAD
from roost.experiments.partition.policies import POLICIES
from roost.experiments.partition.scale import SCALE
from roost.experiments.partition.workloads import WORKLOADS

EXPERIMENTS = (SCALE, POLICIES, BALANCE, ELASTIC, FAULTS, WORKLOADS, OVERHEAD)
