"""The settings of random scenarios, by profile."""

from __future__ import annotations

import random

import msgspec

from roost.broker.module import ModuleState
from roost.broker.registry import ModuleOrder
from roost.simulation.settings import Settings

MOVES = "moves"
EDGES = "edges"
REWIRINGS = "rewirings"
OVERLAY = "overlay"
BALANCING = "balancing"
CLUSTERS = "clusters"
STANDBYS = "standbys"
# Longer than a word takes to cross the federation: slow stores, slow links, and a spike of delay on the way.
GRACE_S = 12.0
EDGE_GRACE_S = 4.0
OPTIMISERS = (
    "none",
    "none",
    "pop",
    "grape-load100",
    "grape-load40",
    "grape-delay100",
    "grape-delay1",
)


# Load balancing in a hurry: scenarios last seconds, and a few events make the difference between brokers.
HURRIED: dict[str, str] = {
    "local_pie_period_s": "0.5",
    "global_pie_period_s": "0.8",
    "pie_ratio_threshold": "0",
    "pie_delay_threshold": "0",
    "press_timeout_s": "0.4",
    "local_ratio_threshold": "0.0005",
    "local_delay_threshold": "0.0005",
    "global_ratio_threshold": "0.001",
    "global_delay_threshold": "0.001",
    "balance_percentage": "0.0001",
    "stabilise_s": "0.2",
    "stabilise_percentage": "10",
    "stable_window_s": "1",
    "local_detection_min_s": "0.2",
    "local_detection_max_s": "0.4",
    "global_detection_min_s": "0.4",
    "global_detection_max_s": "0.7",
    "global_request_threshold": "2",
    "migration_timeout_s": "0.5",
}


def is_edgy(seed: int, profile: str) -> bool:
    """Whether faults last, and clients begin and end meanwhile: in some profiles in every other scenario."""
    return profile == EDGES or (profile == CLUSTERS and seed % 2 == 1)


def settings_of(seed: int, profile: str, draws: random.Random) -> Settings:
    settings = _settings_of_all(seed, profile, draws)
    if profile == MOVES:
        return _settings_of_moves(settings, draws)
    if profile in (REWIRINGS, OVERLAY):
        # Optimisers of clients act as well, and find their neighbours changed.
        found = msgspec.structs.replace(
            _settings_of_moves(settings, draws), optimiser=settings.optimiser
        )
        return _settings_of_overlay(found, draws) if profile == OVERLAY else found
    if profile == BALANCING:
        return _settings_of_balancing(settings, draws)
    if profile == CLUSTERS:
        # The optimisers of clients know trees only.
        found = _settings_of_edges(settings, draws) if is_edgy(seed, profile) else settings
        routing = random.Random(f"{seed}/{profile}/routing").choice(["cluster", "cluster", "tree"])
        return msgspec.structs.replace(found, routing=routing, optimiser="none")
    if profile == STANDBYS:
        return _settings_of_standbys(settings, draws)
    return _settings_of_edges(settings, draws) if profile == EDGES else settings


def _settings_of_standbys(settings: Settings, r: random.Random) -> Settings:
    """Every broker is a pair, and nobody's session ends while one takes over from the other."""
    return msgspec.structs.replace(
        _settings_of_edges(settings, r),
        durability=True,
        standbys=True,
        standbys_alone=r.random() < 0.4,
        optimiser="none",
        session_outbox_max=100_000,
        absence_grace_s=GRACE_S,
    )


def _settings_of_all(seed: int, profile: str, r: random.Random) -> Settings:
    # Optimisers that hurry: the events of a scenario are few.
    optimiser = random.Random(f"{seed}/{profile}/optimiser")
    return Settings(
        optimiser=optimiser.choice(OPTIMISERS),
        traces=optimiser.choice([1, 3, 10]),
        moves_subscribers=optimiser.random() < 0.5,
        moves_must_pay=optimiser.random() < 0.1,
        routing="flooding" if r.random() < 0.25 else "advertisement",
        covering=r.random() < 0.75,
        advertisement_covering=r.random() < 0.4,
        durability=r.random() < 0.65,
        commit_ms=r.choice([0.0, 2.0, 50.0, 400.0]),
        linger_s=r.choice([2.0, 10.0, 60.0]),
        ack_delay_s=r.choice([0.0, 0.05, 1.0]),
        client_latency_ms=r.choice([0.0, 1.0, 20.0]),
        link_latency_ms=r.choice([0.0, 5.0, 50.0]),
        link_outbox_max=r.choice([8, 100_000, 100_000]),
        load_period_s=5.0,
        # In some, what waits for a client that is away is more than is kept.
        session_outbox_max=optimiser.choice([4, 100_000, 100_000, 100_000]),
        session_outbox_policy=optimiser.choice(["drop", "end"]),
        asking=True,
        members=True,
        absence_grace_s=GRACE_S,
    )


def _settings_of_moves(settings: Settings, r: random.Random) -> Settings:
    """Mostly those in which advertisements can migrate, and a move is over before long."""
    return msgspec.structs.replace(
        settings,
        optimiser="none",
        routing="flooding" if r.random() < 0.05 else "advertisement",
        advertisement_covering=r.random() < 0.1,
        commit_ms=r.choice([0.0, 2.0, 20.0]),
        client_latency_ms=r.choice([0.0, 1.0, 10.0]),
        link_latency_ms=r.choice([0.0, 2.0, 20.0]),
        # All that changes while a broker is down: above the bound its links would begin anew.
        link_outbox_max=r.choice([1_000, 100_000]),
    )


def _settings_of_overlay(settings: Settings, r: random.Random) -> Settings:
    """Brokers that rewire themselves in a hurry, and some of them for nothing, so as not to come to rest."""
    order = {
        "variant": r.choice(["roost", "paper", "paper", "ocbr", "ocbr-gated"]),
        "training_messages": str(r.choice([1, 5, 20])),
        "training_s": r.choice(["1.0", "2.5"]),
        "threshold": r.choice(["0.0", "-20.0"]),
        "weight": r.choice(["100.0", "50.0"]),
        "margin": r.choice(["0.0", "2.0"]),
        "noise": r.choice(["0.0", "0.5"]),
        "degree_max": r.choice(["0", "4", "8"]),
        "seed": str(r.randrange(100)),
    }
    return msgspec.structs.replace(
        settings,
        modules=(ModuleOrder("overlay", ModuleState.ACTING, order),),
        rest_s=r.choice([0.0, 0.0, 2.0]),
    )


def _settings_of_balancing(settings: Settings, r: random.Random) -> Settings:
    """Everybody balances load all the time, next to the optimiser that a scenario has, or alone."""
    optimiser = settings.optimiser if r.random() < 0.3 else "none"
    balancing = {
        **HURRIED,
        "profile": r.choice(["thesis", "roost"]),
        "press_samples": r.choice(["1", "3", "10"]),
        "costs": "proportional",
        "back_off_s": r.choice(["0", "1"]),
    }
    return msgspec.structs.replace(
        _settings_of_moves(settings, r),
        optimiser=optimiser,
        load_period_s=0.5,
        rest_s=r.choice([0.0, 1.0]),
        modules=(ModuleOrder("balancing", settings=balancing),),
    )


def _settings_of_edges(settings: Settings, r: random.Random) -> Settings:
    """A word crosses the federation within the time of grace, and nobody's session ends."""
    return msgspec.structs.replace(
        settings,
        durability=r.random() < 0.9,
        commit_ms=r.choice([0.0, 2.0, 20.0]),
        client_latency_ms=r.choice([0.0, 1.0, 10.0]),
        link_latency_ms=r.choice([0.0, 2.0, 20.0]),
        link_outbox_max=r.choice([20, 1_000, 100_000]),
        linger_s=60.0,
        absence_grace_s=EDGE_GRACE_S,
    )
