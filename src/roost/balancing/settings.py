"""What load balancing is told: table 5.2 of 001, and how each rule is read that the thesis leaves open.

`BalancingConfig` is what people set, all of it flat, so that `KEY=VALUE` in a workload or a file will do. Its
defaults are those of table 5.2. The *rules* are what the thesis contradicts itself in, or leaves open
(docs/BALANCING.md says which, and why). A *profile* is one way to read them all:

    thesis   as the thesis has it, wherever that works
    roost    what was seen to work better

A rule that is set by itself goes before the profile's.

>>> BalancingConfig(profile="thesis").rules.accept_limit
0.9
>>> BalancingConfig(profile="thesis", accept_limit=0.7).rules.accept_limit
0.7
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from roost.errors import UserError

Profile = Literal["thesis", "roost"]
Newcomers = Literal["random", "least_loaded"]
CostModel = Literal["proportional", "sampled", "fitted"]
Inert = Literal["idle", "offloads"]
Bounded = Literal["accepting", "offloading"]
Guarded = Literal["input", "output"]
Change = Literal["absolute", "relative"]
PieValues = Literal["raw", "smoothed"]
MatchStop = Literal["below", "never"]


class Rules(Struct, frozen=True, kw_only=True):
    """How each open rule is read."""

    # --- what the profiles differ in
    # A broker that accepts is filled to this at most, in each of its four ratios (4.2.1).
    accept_limit: float = 0.9
    # What a broker does between the two overload thresholds (3.3.2.1): nothing, or what it would do below.
    inert: Inert = "idle"
    # A partner with which an action came to nothing is left alone for it so long, and twice as long each
    # time, up to a maximum; 0: it is not.
    back_off_s: float = 0.0
    back_off_max_s: float = 0.0
    # To which edge-broker a subscriber is sent that connects to a cluster-head (3.2).
    newcomers: Newcomers = "random"
    # What matching takes with more or fewer subscriptions: in proportion (4.7), along a slope that is taken
    # anew every S subscriptions (4.1.2), or by what publications, deliveries and subscriptions were seen to
    # take.
    costs: CostModel = "proportional"

    # --- what the profiles agree on
    # A PIE is published again after so many periods, even if nothing changed; 0: it is not (3.3.1).
    refresh_periods: int = 2
    # Whose ratios bound the number of subscribers that are moved at once (4.2.1).
    bound: Bounded = "accepting"
    # Whose difference figure 4.8 looks at before it moves what makes the other's input higher.
    guard: Guarded = "input"
    # What has changed by less than the stable percentage: the index itself, or its share of what it was.
    stable_change: Change = "absolute"
    # Whether a broker that stabilises refuses requests.
    stabilising_refuses: bool = True
    # Whether a session that moved nobody is followed by stabilising.
    empty_session_stabilises: bool = True
    # Which values a PIE carries.
    pie_values: PieValues = "raw"
    # When figure 4.6 ends: below the lower threshold, or never.
    match_stop: MatchStop = "below"


PROFILES: dict[Profile, Rules] = {
    "thesis": Rules(),
    "roost": Rules(
        accept_limit=0.8,
        inert="offloads",
        back_off_s=120.0,
        back_off_max_s=1_920.0,
        newcomers="least_loaded",
        costs="fitted",
    ),
}


class BalancingConfig(Struct, frozen=True, kw_only=True):
    """What load balancing is told. The same in the whole federation."""

    profile: Profile = "roost"

    # --- table 5.2
    pie_ratio_threshold: float = 0.025  # a ratio that changed by less is not published
    pie_delay_threshold: float = 0.025  # the same of delays, as a percentage difference (3.5)
    local_pie_period_s: float = 30.0
    global_pie_period_s: float = 60.0
    press_samples: int = 50  # publications; N
    press_timeout_s: float = 30.0  # T
    overload_low: float = 0.9  # above it a broker accepts nothing
    overload_high: float = 0.95  # above it a broker offloads at once
    local_ratio_threshold: float = 0.1
    local_delay_threshold: float = 0.1
    global_ratio_threshold: float = 0.15
    global_delay_threshold: float = 0.15
    stabilise_s: float = 30.0  # the least time after a session
    stabilise_percentage: float = 0.05
    delay_normalisation_s: float = 0.1  # N_f
    local_detection_min_s: float = 20.0
    local_detection_max_s: float = 40.0
    global_detection_min_s: float = 50.0
    global_detection_max_s: float = 70.0
    balance_percentage: float = 0.005  # how close two brokers are brought
    smoothing: float = 0.75  # alpha
    global_request_threshold: int = 3
    migration_timeout_s: float = 10.0  # for each client that moves

    # --- in the text only
    stable_window_s: float = 60.0  # over which nothing may change (3.3.2.1)
    pie_expiry_periods: int = 3  # after which an entry is forgotten (3.3.1)
    slope_subscriptions: int = (
        50  # S: as many more or fewer, and slopes are taken anew (4.1.2, 4.1.5)
    )

    # --- of the protocols
    reply_timeout_s: float = 5.0  # a request that is not answered by then is refused
    session_timeout_s: float = 60.0  # a session in which nobody says a word for so long is over
    seed: int = 0  # of what is drawn: intervals, edge-brokers

    # --- rules that are set by themselves; None: as the profile has it
    accept_limit: float | None = None
    inert: Inert | None = None
    back_off_s: float | None = None
    back_off_max_s: float | None = None
    newcomers: Newcomers | None = None
    costs: CostModel | None = None
    refresh_periods: int | None = None
    bound: Bounded | None = None
    guard: Guarded | None = None
    stable_change: Change | None = None
    stabilising_refuses: bool | None = None
    empty_session_stabilises: bool | None = None
    pie_values: PieValues | None = None
    match_stop: MatchStop | None = None

    @property
    def rules(self) -> Rules:
        """The profile's, but for those that are set by themselves."""
        return _rules(self)

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise UserError(f"{name} {getattr(self, name):g}; expected more than 0")
        for name in FROM_ZERO:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UserError(f"{name} {value:g}; expected 0 or more")
        for low, high in ORDERED:
            if getattr(self, low) > getattr(self, high):
                raise UserError(
                    f"{low} {getattr(self, low):g} is above {high} {getattr(self, high):g};"
                    " expected at most as much"
                )
        if not self.overload_high <= 1:
            raise UserError(f"overload_high {self.overload_high:g}; expected at most 1")
        if not self.smoothing <= 1:
            raise UserError(f"smoothing {self.smoothing:g}; expected at most 1")
        if not 0 < self.rules.accept_limit <= self.overload_low:
            raise UserError(
                f"accept_limit {self.rules.accept_limit:g}; expected more than 0, and at most"
                f" overload_low ({self.overload_low:g})"
            )


POSITIVE = (
    "local_pie_period_s",
    "global_pie_period_s",
    "press_samples",
    "press_timeout_s",
    "overload_low",
    "delay_normalisation_s",
    "local_detection_min_s",
    "global_detection_min_s",
    "smoothing",
    "global_request_threshold",
    "migration_timeout_s",
    "reply_timeout_s",
    "session_timeout_s",
    "stable_window_s",
    "pie_expiry_periods",
    "slope_subscriptions",
)
FROM_ZERO = (
    "pie_ratio_threshold",
    "pie_delay_threshold",
    "local_ratio_threshold",
    "local_delay_threshold",
    "stabilise_s",
    "stabilise_percentage",
    "balance_percentage",
    "back_off_s",
    "back_off_max_s",
    "refresh_periods",
)
# Thresholds between clusters are at least those within one, or brokers would seem balanced at one level and
# not at the other (3.3.2.2).
ORDERED = (
    ("overload_low", "overload_high"),
    ("local_ratio_threshold", "global_ratio_threshold"),
    ("local_delay_threshold", "global_delay_threshold"),
    ("local_detection_min_s", "local_detection_max_s"),
    ("global_detection_min_s", "global_detection_max_s"),
)


@lru_cache(maxsize=64)
def _rules(config: BalancingConfig) -> Rules:
    given = {name: getattr(config, name) for name in Rules.__struct_fields__}
    profile = PROFILES[config.profile]
    profile = replace(profile, accept_limit=min(profile.accept_limit, config.overload_low))
    return replace(profile, **{name: value for name, value in given.items() if value is not None})
