"""The evaluation of 001 (dynamic load balancing): one cluster, clusters in a chain, and nine studies."""

from roost.experiments.balancing.clusters import GLOBAL
from roost.experiments.balancing.local import LOCAL
from roost.experiments.balancing.micro import MICRO

EXPERIMENTS = (LOCAL, GLOBAL, MICRO)
