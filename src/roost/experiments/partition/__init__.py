"""The evaluation of 004 (the partitioned service): what it bears, which policy reaches how much, and how it
takes rising rates and crashes."""

from roost.experiments.partition.elastic import ELASTIC
from roost.experiments.partition.faults import FAULTS
from roost.experiments.partition.policies import POLICIES
from roost.experiments.partition.scale import SCALE

EXPERIMENTS = (SCALE, POLICIES, ELASTIC, FAULTS)
