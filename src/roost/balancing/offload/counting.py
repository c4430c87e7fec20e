"""How many subscribers of each subscription would move: figures 4.1, 4.5, 4.6 and 4.8, without their loops.

The figures try n = max, max - 1, ... until the two brokers are no longer balanced, and return the last n
for which they were; if not even `max` balances them, all of them move. What is compared changes in a straight
line with n, but for one jump: when the last subscriber goes, its publications no longer come. That jump is at
n = max, which is returned in either case if no smaller n will do. So n is the least one for which

    start - step * n < limit

and no more than `max`: one division for each subscription. (For `ours < theirs or |difference| < b` one can
say `difference < b`.) `literal` has the loops.

**The bound.** `max` is as many as leave each ratio of the accepting broker below the limit: input, output,
processor and memory. Section 4.2.1 speaks of the *offloading* broker there, which would keep it from ever
getting below the threshold (`Rules.bound` has both).
"""

from __future__ import annotations

import numpy as np

from roost.balancing.estimation import BrokerModel, Floats, memory_ratio, output_ratio, work
from roost.balancing.offload.scales import Positions, Scales


def most_below(start: Floats, step: Floats, limit: float) -> Floats:
    """The most n, from 0 on, with start + step * n < limit; infinitely many if nothing changes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.ceil((limit - start) / step) - 1
    n = np.where(step > 0, n, np.inf)
    return np.where(start < limit, np.maximum(n, 0), 0)


def least_below(start: Floats, step: Floats, limit: float) -> Floats:
    """The least n, from 0 on, with start - step * n < limit; infinite if there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.floor((start - limit) / step) + 1
    n = np.where(step > 0, n, np.inf)
    return np.where(start < limit, 0, n)


class Line:
    """A ratio of one broker as subscribers come (+1) or go (-1): start, and what each of them changes."""

    __slots__ = ("start", "step")

    def __init__(self, start: Floats, step: Floats) -> None:
        self.start = start
        self.step = step


def input_line(scales: Scales, model: BrokerModel, rate: Floats, i: Positions) -> Line:
    """The input ratio, at that rate of publications."""
    factor, each = model.input_factor, scales.entries[i] * model.subscription_s
    start = work(model, model.subscriptions, rate, model.output_rate)
    return Line(factor * start, factor * (rate * each + model.delivery_s * scales.rates[i]))


def memory_line(scales: Scales, model: BrokerModel, rate: Floats, i: Positions) -> Line:
    """The memory ratio, at that rate of publications."""
    total = model.memory_total_bytes
    if not total:
        return Line(np.zeros(len(i)), np.zeros(len(i)))
    start = memory_ratio(model, model.subscriptions, rate, model.output_bytes_per_s)
    each = scales.entries[i] * (
        model.memory_a_subscription_bytes + model.memory_a_queued_bytes * rate
    )
    return Line(start, (each + model.memory_a_sent_bytes * scales.bytes_per_s[i]) / total)


def output_line(scales: Scales, model: BrokerModel, i: Positions) -> Line:
    """The output ratio."""
    start = np.full(len(i), output_ratio(model, model.output_bytes_per_s))
    return Line(start, output_ratio(model, scales.bytes_per_s[i]))


def bounds(scales: Scales, i: Positions) -> Floats:
    """How many may move at most (4.2.1)."""
    if scales.rules.bound == "offloading":
        return _until_relieved(scales, i)
    limit, other = scales.rules.accept_limit, scales.other
    rate = other.input_rate + scales.extra[i]
    incoming = input_line(scales, other, rate, i)
    outgoing = output_line(scales, other, i)
    memory = memory_line(scales, other, rate, i)
    # The processor follows the same line at another height.
    input_limit = limit * min(1.0, other.input_factor / other.cpu_factor)
    n = np.minimum(scales.clients[i], most_below(incoming.start, incoming.step, input_limit))
    n = np.minimum(n, most_below(outgoing.start, outgoing.step, limit))
    return np.minimum(n, most_below(memory.start, memory.step, limit))


def _until_relieved(scales: Scales, i: Positions) -> Floats:
    """As printed: one less than takes the offloading broker below the threshold in all four ratios."""
    needed = until_below(scales, i) if scales.rules.bound == "offloading" else scales.clients[i]
    outgoing = output_line(scales, scales.own, i)
    low = scales.config.overload_low
    needed = np.maximum(needed, least_below(outgoing.start, outgoing.step, low))
    return np.clip(needed - 1, 0, scales.clients[i])


def until_below(scales: Scales, i: Positions) -> Floats:
    """How many have to go until input, processor and memory are below the lower threshold (figure 4.6)."""
    own, low = scales.own, scales.config.overload_low
    rate = np.full(len(i), own.input_rate)
    incoming = input_line(scales, own, rate, i)
    memory = memory_line(scales, own, rate, i)
    input_limit = low * min(1.0, own.input_factor / own.cpu_factor)
    return np.maximum(
        least_below(incoming.start, incoming.step, input_limit),
        least_below(memory.start, memory.step, low),
    )


def input_counts(scales: Scales, i: Positions) -> tuple[Floats, Floats]:
    """Figure 4.1: how many move, and the difference of the input ratios then."""
    own, other = scales.own, scales.other
    here = input_line(scales, own, np.full(len(i), own.input_rate), i)
    there = input_line(scales, other, other.input_rate + scales.extra[i], i)
    n = least_below(
        here.start - there.start, here.step + there.step, scales.config.balance_percentage
    )
    n = np.minimum(np.maximum(n, 1), bounds(scales, i))
    return n, own_input(scales, i, n) - (there.start + there.step * n)


def own_input(scales: Scales, i: Positions, n: Floats) -> Floats:
    """The offloading broker's input ratio without so many: the last takes its publications along."""
    own = scales.own
    rate = own.input_rate - np.where(scales.lasts(i, n), scales.reducible[i], 0.0)
    here = input_line(scales, own, np.maximum(rate, 0.0), i)
    return np.maximum(here.start - here.step * n, 0.0)


def match_counts(scales: Scales, i: Positions) -> tuple[Floats, Floats]:
    """Figure 4.5: how many move, and the difference of the matching delays then."""
    own, other = scales.own, scales.other
    norm_s = scales.config.delay_normalisation_s
    delay_s = own.indices().matching_delay_s - other.indices().matching_delay_s
    start = np.full(len(i), delay_s / norm_s)
    step = scales.entries[i] * (own.subscription_s + other.subscription_s) / norm_s
    n = least_below(start, step, scales.config.balance_percentage)
    n = np.minimum(np.maximum(n, 1), bounds(scales, i))
    return n, start - step * n


def relief_counts(scales: Scales, i: Positions) -> tuple[Floats, Floats]:
    """Figure 4.6: how many move, and the difference of the matching delays then."""
    n = np.minimum(np.maximum(until_below(scales, i), 1), bounds(scales, i))
    norm_s = scales.config.delay_normalisation_s
    delay_s = scales.own.indices().matching_delay_s - scales.other.indices().matching_delay_s
    each = scales.entries[i] * (scales.own.subscription_s + scales.other.subscription_s)
    return n, (delay_s - each * n) / norm_s


def output_counts(scales: Scales, i: Positions, *, is_overloaded: bool) -> tuple[Floats, Floats]:
    """Figure 4.8: how many move, and the difference of the output ratios then."""
    here, there = output_line(scales, scales.own, i), output_line(scales, scales.other, i)
    start, step = here.start - there.start, here.step + there.step
    n = least_below(start, step, scales.config.balance_percentage)
    most = np.minimum(bounds(scales, i), guarded(scales, i, is_overloaded=is_overloaded))
    n = np.minimum(np.maximum(n, 1), most)
    return n, start - step * n


def guarded(scales: Scales, i: Positions, *, is_overloaded: bool) -> Floats:
    """How many may move so that the other's input does not rise above the own by more than the threshold.

    Without this guard of figure 4.8, input and output offload send the same subscriptions back and forth
    (tables 4.2 to 4.5). An overloaded output may be lowered all the same, as far as to the lower overload
    threshold: there the broker stays N/A, and nothing is sent back to it.
    """
    own, other = scales.own, scales.other
    threshold = scales.config.local_ratio_threshold
    here = input_line(scales, own, np.full(len(i), own.input_rate), i)
    there = input_line(scales, other, other.input_rate + scales.extra[i], i)
    n = _most_up_to(there.start - here.start, there.step + here.step, threshold)
    n = np.minimum(n, scales.clients[i])
    # The last subscriber lowers the own input by all that it alone attracted.
    above = there.start + there.step * n - own_input(scales, i, n)
    n = np.where(scales.lasts(i, n) & (above > threshold), n - 1, n)
    if is_overloaded:
        low = scales.config.overload_low
        line = output_line(scales, own, i)
        n = np.maximum(n, _most_up_to(-line.start, line.step, -low))
    return n


def _most_up_to(start: Floats, step: Floats, limit: float) -> Floats:
    """The most n, from 0 on, with start + step * n <= limit; infinitely many if nothing changes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.floor((limit - start) / step)
    n = np.where(step > 0, n, np.inf)
    return np.where(start <= limit, np.maximum(n, 0), 0)
