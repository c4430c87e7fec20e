"""Dynamic load balancing (001): subscribers move off hot brokers.

Decisions, which are pure functions of statistics:

| module | what it decides or holds |
| --- | --- |
| `settings` | table 5.2, and how open rules are read: `BalancingConfig` |
| `indices` | the load indices, and how they are compared |
| `states` | the states of brokers and clusters, as tables |
| `cards` | what an offload is given, and what it gives back |
"""

from roost.balancing.cards import LoadReport, Offload, ReportCard, Spectrum, SubscriptionLoad
from roost.balancing.indices import Action, BrokerIndices, Indices, indices_of, smoothed
from roost.balancing.settings import PROFILES, BalancingConfig, Rules
from roost.balancing.states import BROKER, CLUSTER, Cue, Status, after

__all__ = [
    "BROKER",
    "CLUSTER",
    "PROFILES",
    "Action",
    "BalancingConfig",
    "BrokerIndices",
    "Cue",
    "Indices",
    "LoadReport",
    "Offload",
    "ReportCard",
    "Rules",
    "Spectrum",
    "Status",
    "SubscriptionLoad",
    "after",
    "indices_of",
    "smoothed",
]
