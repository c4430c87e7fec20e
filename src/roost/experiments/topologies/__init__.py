"""The evaluation of 003 (two topologies for brokers): what tree and cluster bear, and how quickly."""

from roost.experiments.topologies.graphs import TOPOLOGIES

EXPERIMENTS = (TOPOLOGIES,)
