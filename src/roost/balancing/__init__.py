"""Dynamic load balancing (001): subscribers move off hot brokers.

Decisions, which are pure functions of statistics, or the memory that they are made from:

| module | what it decides or holds |
| --- | --- |
| `settings` | table 5.2, and how open rules are read: `BalancingConfig` |
| `indices` | the load indices, and how they are compared |
| `states` | the states of brokers and clusters, as tables |
| `detection` | whether to balance, what, and with whom: `detect`, `detect_global` |
| `back_off`, `reach` | partners that are left alone, actions that would lower nothing |
| `cards` | what an offload is given, and what it gives back |
| `costs` | what a broker has learned of its own samples: `OwnLoad` |
| `estimation` | what more or fewer subscriptions would do to a broker |
| `offload` | who is to move: `choose` |

Protocols, which gather the statistics and carry the choice out: `Balancing` (`module`), with

| module | what it does |
| --- | --- |
| `peer` | the roles of brokers, and which clients belong where |
| `pie` | what brokers and clusters tell each other of their load |
| `edge`, `head` | what an edge-broker does, and what a cluster-head does |
| `mediation`, `control` | sessions of two brokers, and what they say |
| `publishers` | publishers that leave an overloaded cluster-head |
| `press` | which publications go to whom, sampled |
| `drain` | a broker that is emptied |
"""

from roost.balancing.back_off import BackOff
from roost.balancing.cards import LoadReport, Offload, ReportCard, Spectrum, SubscriptionLoad
from roost.balancing.costs import OwnLoad
from roost.balancing.detection import (
    BrokerAction,
    Detection,
    Moment,
    Overload,
    PieEntry,
    balanced_set,
    detect,
    detect_global,
    is_stable,
    place_newcomer,
)
from roost.balancing.indices import Action, BrokerIndices, Indices, indices_of, mean_of, smoothed
from roost.balancing.module import Balancing
from roost.balancing.offload import SubscriptionPoset, choose
from roost.balancing.reach import futile_actions
from roost.balancing.settings import PROFILES, BalancingConfig, Rules
from roost.balancing.states import BROKER, CLUSTER, Cue, Status, after

__all__ = [
    "BROKER",
    "CLUSTER",
    "PROFILES",
    "Action",
    "BackOff",
    "Balancing",
    "BalancingConfig",
    "BrokerAction",
    "BrokerIndices",
    "Cue",
    "Detection",
    "Indices",
    "LoadReport",
    "Moment",
    "Offload",
    "Overload",
    "OwnLoad",
    "PieEntry",
    "ReportCard",
    "Rules",
    "Spectrum",
    "Status",
    "SubscriptionLoad",
    "SubscriptionPoset",
    "after",
    "balanced_set",
    "choose",
    "detect",
    "detect_global",
    "futile_actions",
    "indices_of",
    "is_stable",
    "mean_of",
    "place_newcomer",
    "smoothed",
]
