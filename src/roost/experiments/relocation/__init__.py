"""The evaluation of 000 (publisher relocation): POP and GRAPE against the baseline and the optimum."""

from roost.experiments.relocation.clustered import CLUSTERED
from roost.experiments.relocation.random_spread import RANDOM
from roost.experiments.relocation.selection import SELECTED
from roost.experiments.relocation.triggers import TRIGGERED
from roost.experiments.relocation.weights import WEIGHTED

EXPERIMENTS = (CLUSTERED, RANDOM, WEIGHTED, TRIGGERED, SELECTED)
