"""The evaluation of 001 (dynamic load balancing): one cluster, and clusters in a chain."""

from roost.experiments.balancing.clusters import GLOBAL
from roost.experiments.balancing.local import LOCAL

EXPERIMENTS = (LOCAL, GLOBAL)
