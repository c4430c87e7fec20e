"""The evaluation of 001 (dynamic load balancing): one cluster, clusters in a chain, nine studies, and with
GRAPE beside it."""

from roost.experiments.balancing.clusters import GLOBAL
from roost.experiments.balancing.local import LOCAL
from roost.experiments.balancing.micro import MICRO
from roost.experiments.balancing.together import TOGETHER

EXPERIMENTS = (LOCAL, GLOBAL, MICRO, TOGETHER)
