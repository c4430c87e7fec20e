"""What load balancing is told: table 5.2 of 001, and how each rule is read that the thesis leaves open.

`BalancingConfig` is what people set, all of it flat, so that `KEY=VALUE` in a workload or a file will do. Its
defaults are those of table 5.2. The *rules* are what the thesis contradicts itself in, or leaves open
(docs/BALANCING.md says which, and why). A *profile* is one way to read them all:

    thesis   as the thesis has it, wherever that works
    roost    what was seen to work better

A rule that is set by itself goes before the profile's. One that is not says "profile", or -1.

>>> BalancingConfig(profile="thesis").rules.accept_limit
0.9
>>> BalancingConfig(profile="thesis", accept_limit=0.7).rules.accept_limit
0.7
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from roost.errors import UserError
from roost.settings import why

Profile = Literal["thesis", "roost"]
Stability = Literal["difference", "peak"]
Newcomers = Literal["random", "least_loaded"]
Precedence = Literal["asking", "all"]
CostModel = Literal["proportional", "sampled", "fitted"]
Inert = Literal["idle", "offloads"]
Bounded = Literal["accepting", "offloading"]
Guarded = Literal["input", "output"]
Change = Literal["absolute", "relative"]
PieValues = Literal["raw", "smoothed"]
MatchStop = Literal["below", "never"]
GoesOn = Literal["overloaded", "always"]
YesNo = Literal["yes", "no"]

# A number of a rule that nobody has said.
UNSAID = -1.0


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
    # What a choice has to lower, unless the broker is overloaded: the difference of the two brokers (4.2.1),
    # or the higher of them, and without unbalancing what else is balanced.
    stability: Stability = "difference"
    # When an input offload that has not balanced the inputs goes on with those who get the least (4.2.1).
    input_goes_on: GoesOn = "overloaded"
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
    # Whose N/A keeps others from asking (3.3.2.3): everybody's, or of those who would ask themselves.
    priority: Precedence = "asking"
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
        stability="peak",
        input_goes_on="always",
        newcomers="least_loaded",
        costs="fitted",
    ),
}


class BalancingConfig(Struct, frozen=True, kw_only=True):
    """Load balancing: subscribers move off hot brokers. The same in the whole federation."""

    profile: Annotated[
        Profile, why("How open rules are read: as the thesis has it, or as works better.")
    ] = "roost"

    # --- table 5.2
    pie_ratio_threshold: Annotated[
        float, why("A ratio that has changed by no more is not told to others.")
    ] = 0.025
    pie_delay_threshold: Annotated[
        float, why("The same of the matching delay, over the normalisation below.")
    ] = 0.025
    local_pie_period_s: Annotated[
        float, why("How often a broker tells its cluster how loaded it is.")
    ] = 30.0
    global_pie_period_s: Annotated[
        float, why("How often a cluster tells its neighbours how loaded it is.")
    ] = 60.0
    press_samples: Annotated[
        int, why("Publications that are looked at before it is decided who moves.")
    ] = 50
    press_timeout_s: Annotated[
        float, why("After so long it is decided with as many as have come.")
    ] = 30.0
    overload_low: Annotated[
        float, why("A broker that is busier accepts nobody, in each of four ratios.")
    ] = 0.9
    overload_high: Annotated[
        float, why("A broker that is busier has subscribers move at once.")
    ] = 0.95
    local_ratio_threshold: Annotated[
        float, why("Brokers whose ratios differ by more are not balanced.")
    ] = 0.1
    local_delay_threshold: Annotated[
        float, why("Nor are those whose matching delays do, over the normalisation below.")
    ] = 0.1
    global_ratio_threshold: Annotated[
        float, why("The same of clusters: at least that of brokers.")
    ] = 0.15
    global_delay_threshold: Annotated[
        float, why("The same of clusters: at least that of brokers.")
    ] = 0.15
    stabilise_s: Annotated[
        float, why("How long a broker waits at least for the effects of a session.")
    ] = 30.0
    stabilise_percentage: Annotated[float, why("And until no index changes by more.")] = 0.05
    delay_normalisation_s: Annotated[
        float, why("What differences of matching delays are divided by.")
    ] = 0.1
    local_detection_min_s: Annotated[
        float, why("A broker looks at itself at random intervals: of so long at least.")
    ] = 20.0
    local_detection_max_s: Annotated[float, why("And of so long at most.")] = 40.0
    global_detection_min_s: Annotated[
        float, why("A cluster-head looks at its cluster at random intervals: of so long at least.")
    ] = 50.0
    global_detection_max_s: Annotated[float, why("And of so long at most.")] = 70.0
    balance_percentage: Annotated[
        float, why("How close two brokers are brought to each other.")
    ] = 0.005
    smoothing: Annotated[
        float, why("How much the present counts against the past when a broker looks at itself.")
    ] = 0.75
    global_request_threshold: Annotated[
        int,
        why("So many calls for help of a broker in a global session end it for another cluster."),
    ] = 3
    migration_timeout_s: Annotated[
        float, why("How long a session waits for its subscribers to arrive, for each of them.")
    ] = 10.0

    # --- in the text only
    stable_window_s: Annotated[
        float, why("Over how long nothing may change until a broker is stable.")
    ] = 60.0
    pie_expiry_periods: Annotated[
        int, why("Periods after which a broker that says nothing is forgotten.")
    ] = 3
    slope_subscriptions: Annotated[
        int, why("So many subscriptions more or fewer, and it is measured anew what one costs.")
    ] = 50

    # --- of the protocols
    reply_timeout_s: Annotated[
        float, why("A broker that does not answer a request for so long has refused it.")
    ] = 5.0
    migration_max_s: Annotated[
        float, why("How long a session waits at most, however many are to arrive.")
    ] = 120.0
    seed: Annotated[int, why("Of what is drawn: intervals, and edge-brokers for newcomers.")] = 0

    # --- rules that are set by themselves
    accept_limit: Annotated[
        float, why("A broker that accepts is filled to this at most. -1: as the profile has it.")
    ] = UNSAID
    inert: Annotated[
        Literal["profile", Inert],
        why("What a broker does between the two overload thresholds."),
    ] = "profile"
    back_off_s: Annotated[
        float,
        why("How long a partner rests with which nothing came of it. -1: as the profile has it."),
    ] = UNSAID
    back_off_max_s: Annotated[
        float, why("The longest such rest, as each is twice the last. -1: as the profile has it.")
    ] = UNSAID
    priority: Annotated[
        Literal["profile", Precedence],
        why("Whether all overloaded brokers go first, or those that would ask for something."),
    ] = "profile"
    stability: Annotated[
        Literal["profile", Stability],
        why("What a choice has to lower: the difference of two brokers, or the higher of them."),
    ] = "profile"
    input_goes_on: Annotated[
        Literal["profile", GoesOn],
        why("Which brokers go on with those who get the least when inputs are not balanced yet."),
    ] = "profile"
    newcomers: Annotated[
        Literal["profile", Newcomers],
        why("Where a subscriber goes that connects to a cluster-head."),
    ] = "profile"
    costs: Annotated[
        Literal["profile", CostModel],
        why("How it is known what a subscription costs."),
    ] = "profile"
    refresh_periods: Annotated[
        int,
        why(
            "Periods after which a broker repeats what has not changed, or it would be forgotten."
            " 0: never. -1: as the profile has it."
        ),
    ] = -1
    bound: Annotated[
        Literal["profile", Bounded],
        why("Whose ratios bound how many are moved at once."),
    ] = "profile"
    guard: Annotated[
        Literal["profile", Guarded],
        why("Which ratios are kept from being unbalanced when output is balanced."),
    ] = "profile"
    stable_change: Annotated[
        Literal["profile", Change],
        why("How a change is measured while a broker waits until it is stable."),
    ] = "profile"
    stabilising_refuses: Annotated[
        Literal["profile", YesNo],
        why("Whether a broker that waits until it is stable refuses to accept."),
    ] = "profile"
    empty_session_stabilises: Annotated[
        Literal["profile", YesNo],
        why("Whether that is waited for after a session that moved nobody."),
    ] = "profile"
    pie_values: Annotated[
        Literal["profile", PieValues],
        why("Whether brokers tell each other the last values or smoothed ones."),
    ] = "profile"
    match_stop: Annotated[
        Literal["profile", MatchStop],
        why("When the relief of an overloaded processor ends."),
    ] = "profile"

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
            is_unsaid = value == UNSAID and name in Rules.__struct_fields__
            if not value >= 0 and not is_unsaid:
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
    "migration_max_s",
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
    profile = PROFILES[config.profile]
    profile = replace(profile, accept_limit=min(profile.accept_limit, config.overload_low))
    given = {name: getattr(config, name) for name in Rules.__struct_fields__}
    said = {name: value for name, value in given.items() if value not in ("profile", UNSAID)}
    for name in ("stabilising_refuses", "empty_session_stabilises"):
        if name in said:
            said[name] = said[name] == "yes"
    return replace(profile, **said)
