"""The evaluation of 004 (the partitioned service): what it bears, and which policy reaches how much of it."""

from roost.experiments.partition.policies import POLICIES
from roost.experiments.partition.scale import SCALE

EXPERIMENTS = (SCALE, POLICIES)
