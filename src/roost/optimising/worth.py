"""Whether a move pays for itself.

The paper moves a publisher whenever another broker comes out better, by however little. Statistics are
samples, and what they say of two brokers that are about as good changes from session to session: publishers
would wander. So a move has to save more than it costs, within a time for which the statistics may be
trusted (the *horizon*), it has to save a share of what there is, and after a move the client rests.

A move is judged in one metric:

    metric   saved a second                             unit over the horizon
    load     messages/s less                            messages
    delay    seconds less * deliveries/s                seconds that deliveries are under way (s)

Costs of a path of M brokers, as the migration protocol has them (000 section 3.3):

    load     messages_per_broker * M: the update goes one way and the confirmation the other, and a broker
             forwards and withdraws subscriptions
    delay    the publisher pauses pause_s_per_broker * M, and what it would have published meanwhile comes
             later, by half of that on average
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from roost.errors import UserError

Metric = Literal["delay", "load"]

# From here on digits behind the point say nothing.
READABLE = 1_000
UNITS = {"load": "messages", "delay": "s of delivery"}


class Terms(Struct, frozen=True):
    """What a move has to meet."""

    horizon_s: float = 600.0
    messages_per_broker: float = 6.0
    # With links of 10 ms it is 0.01 s, in the wide area 0.07 s, and where brokers are busy 0.12 s.
    pause_s_per_broker: float = 0.1
    margin: float = 2.0  # the saving over the cost, at least
    share_min: float = 0.05  # the saving over what there is now, at least
    rest_s: float = 60.0  # after a move

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not value >= 0:
                raise UserError(f"{name} {value:g}; expected 0 or more")


class Verdict(Struct, frozen=True):
    """Whether to move; saving and cost over the horizon, in the same unit."""

    pays: bool
    saving: float
    cost: float
    unit: str
    reason: str


def worth_of_messages(
    now_per_s: float, then_per_s: float, path_brokers: int, since_move_s: float | None, terms: Terms
) -> Verdict:
    """Judge a move by the messages a second that there are now, and that there would be.

    `path_brokers` are those of the migration path, both ends included; `since_move_s` is how long ago the
    client moved last, None if it has not.
    """
    cost = terms.messages_per_broker * path_brokers
    saving = (now_per_s - then_per_s) * terms.horizon_s
    return _verdict("load", now_per_s, then_per_s, saving, cost, since_move_s, terms)


def worth_of_delay(
    now_s: float,
    then_s: float,
    deliveries_per_s: float,
    path_brokers: int,
    since_move_s: float | None,
    terms: Terms,
) -> Verdict:
    """Judge a move by the mean delay that there is now, and that there would be."""
    pause = terms.pause_s_per_broker * path_brokers
    cost = pause * pause / 2 * deliveries_per_s
    saving = (now_s - then_s) * deliveries_per_s * terms.horizon_s
    return _verdict("delay", now_s, then_s, saving, cost, since_move_s, terms)


def _verdict(
    metric: Metric,
    now: float,
    then: float,
    saving: float,
    cost: float,
    since_move_s: float | None,
    terms: Terms,
) -> Verdict:
    unit = UNITS[metric]
    found = f"saves {_amount(saving)} {unit} in {terms.horizon_s:g} s and costs {_amount(cost)}"
    pays = False
    if since_move_s is not None and since_move_s < terms.rest_s:
        reason = f"it moved {since_move_s:.4g} s ago and rests for {terms.rest_s:g} s"
    elif now - then < terms.share_min * now:
        share = 100 * (now - then) / now
        reason = f"saves {share:.3g} % of the {metric}, less than {100 * terms.share_min:g} %"
    elif saving <= terms.margin * cost:
        reason = f"{found}, which is not {terms.margin:g} times less"
    else:
        pays, reason = True, found
    return Verdict(pays, saving, cost, unit, reason)


def _amount(value: float) -> str:
    """A number as people read it."""
    return f"{value:,.0f}" if value >= READABLE else f"{value:.4g}"
