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

**Steps** depend on what comes in, which changes at most once a sample, and **starts** on the numbers of
subscriptions, which change with each choice. So `Steps` are worked out once for many choices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost.balancing.estimation import BrokerModel, Floats, memory_ratio, output_ratio, work
from roost.balancing.indices import Action
from roost.balancing.offload.scales import Positions, Scales

Mask = NDArray[np.bool_]

# What differs by less is equal: rounding must not decide.
EQUAL = 1e-12
# How much of a threshold an offload may use up in an index that it does not balance.
WELL_WITHIN = 0.75
# A step of 0, which is never enough, so that nothing is divided by it.
NO_STEP = 1e-300


class Counts(NamedTuple):
    """For each candidate: how many would move, 0 for none, and the difference of the two brokers then."""

    subscribers: Floats
    differences: Floats


class Steps:
    """By what one subscriber of each subscription changes either broker, as long as the same comes in."""

    def __init__(self, scales: Scales, *, is_overloaded: bool) -> None:
        self.scales = scales
        self._is_overloaded = is_overloaded
        self._is_calm = scales.rules.stability == "peak" and not is_overloaded
        entries, rates, sent = scales.entries, scales.rates, scales.bytes_per_s
        own, other = scales.own, scales.other
        self._rate_there = other.input_rate + scales.extra
        self._rate_last = np.maximum(own.input_rate - scales.reducible, 0.0)
        self._input_here = _input_step(own, own.input_rate, entries, rates)
        self._input_last = _input_step(own, self._rate_last, entries, rates)
        self._input_there = _input_step(other, self._rate_there, entries, rates)
        self._output_here = _step(output_ratio(own, sent))
        self._output_there = _step(output_ratio(other, sent))
        self._memory_here = _memory_step(own, own.input_rate, entries, sent)
        self._memory_there = _memory_step(other, self._rate_there, entries, sent)
        norm_s = scales.config.delay_normalisation_s
        self._delay_there = _step(entries * other.subscription_s / norm_s)
        self._delay = _step(entries * (own.subscription_s + other.subscription_s) / norm_s)

    # --- how many

    def by_input(self, i: Positions) -> Counts:
        """Figure 4.1, with the input ratios."""
        here, there = self._input_now_here(), self._input_now_there(i)
        step_here, step_there = self._input_here[i], self._input_there[i]
        n = _least_below(here - there, step_here + step_there, self._balance_percentage)
        n = np.minimum(np.maximum(n, 1.0), self._bounds(i, there, step_there))
        if self._is_calm:
            n = self._calm(Action.INPUT, i, n)
        ours = self._own_input(i, n, step_here)
        if self._is_calm:
            # That the other gets more is no relief.
            n = np.where(ours < here - EQUAL, n, 0.0)
        return Counts(n, ours - there - step_there * n)

    def by_match(self, i: Positions) -> Counts:
        """Figure 4.5, with the matching delays."""
        now, step = self.scales.difference(Action.MATCH), self._delay[i]
        n = _least_below(now, step, self._balance_percentage)
        n = np.minimum(np.maximum(n, 1.0), self._bounds_of(i))
        if self._is_calm:
            n = self._calm(Action.MATCH, i, n)
        return Counts(n, now - step * n)

    def by_relief(self, i: Positions) -> Counts:
        """Figure 4.6: until input, processor and memory are below the lower threshold."""
        n = np.minimum(np.maximum(self._until_relieved(i), 1.0), self._bounds_of(i))
        return Counts(n, self.scales.difference(Action.MATCH) - self._delay[i] * n)

    def by_output(self, i: Positions) -> Counts:
        """Figure 4.8, with the output ratios."""
        now = self.scales.difference(Action.OUTPUT)
        there, step_there = self._input_now_there(i), self._input_there[i]
        step = self._output_here[i] + self._output_there[i]
        if self.scales.rules.guard == "output":
            n = self._printed(i, now, step)
            return Counts(n, now - step * n)
        n = _least_below(now, step, self._balance_percentage)
        n = np.minimum(np.maximum(n, 1.0), self._bounds(i, there, step_there))
        if self._is_calm:
            n = self._calm(Action.OUTPUT, i, n)
        else:
            n = np.minimum(n, self._guarded(i, there, step_there))
        return Counts(n, now - step * n)

    # --- how many at most

    def _bounds_of(self, i: Positions) -> Floats:
        return self._bounds(i, self._input_now_there(i), self._input_there[i])

    def _bounds(self, i: Positions, input_there: Floats, input_step: Floats) -> Floats:
        """4.2.1."""
        scales, other = self.scales, self.scales.other
        clients = scales.clients[i]
        if scales.rules.bound == "offloading":
            return np.clip(self._until_low(i) - 1.0, 0.0, clients)
        limit = scales.rules.accept_limit
        # The processor follows the same line at another height.
        input_limit = limit * min(1.0, other.input_factor / other.cpu_factor)
        n = np.minimum(clients, _most_below(input_there, input_step, input_limit))
        sent = output_ratio(other, other.output_bytes_per_s)
        n = np.minimum(n, _most_below(sent, self._output_there[i], limit))
        rate = self._rate_there[i]
        memory = memory_ratio(other, other.subscriptions, rate, other.output_bytes_per_s)
        return np.minimum(n, _most_below(memory, self._memory_there[i], limit))

    def _until_relieved(self, i: Positions) -> Floats:
        """How many until the offloading broker's input, processor and memory are below the threshold."""
        own, low = self.scales.own, self.scales.config.overload_low
        input_limit = low * min(1.0, own.input_factor / own.cpu_factor)
        return np.maximum(
            _least_below(self._input_now_here(), self._input_here[i], input_limit),
            _least_below(own.indices().memory_ratio, self._memory_here[i], low),
        )

    def _until_low(self, i: Positions) -> Floats:
        """The same, and its output: what 4.2.1 bounds as printed."""
        own, low = self.scales.own, self.scales.config.overload_low
        sent = output_ratio(own, own.output_bytes_per_s)
        return np.maximum(self._until_relieved(i), _least_below(sent, self._output_here[i], low))

    def _calm(self, action: Action, i: Positions, n: Floats) -> Floats:
        """How many of these n may go if the two are to come to rest; 0 for none.

        In the index that is balanced, the accepting broker stays below where the offloading one is now, so
        that the higher of the two falls. As many may go as leave the other two well within their thresholds,
        or as they are: at the threshold the next quotes would have it sent back. If that is nobody, so many
        may go if the sum of all three differences falls, of which only what is beyond the thresholds counts:
        what one index gains is not lost in another.
        """
        config, own, other = (
            self.scales.config,
            self.scales.own.indices(),
            self.scales.other.indices(),
        )
        norm_s, delay_there = config.delay_normalisation_s, self._delay_there[i]
        there_s = np.full(len(i), other.matching_delay_s / norm_s)
        sent = np.full(len(i), other.output_ratio)
        # Of each index: where it stands there, what each subscriber adds there, and what goes here.
        lines: list[tuple[Action, Floats, Floats, Floats]] = [
            (Action.INPUT, self._input_now_there(i), self._input_there[i], self._input_here[i]),
            (Action.OUTPUT, sent, self._output_there[i], self._output_here[i]),
            (Action.MATCH, there_s, delay_there, self._delay[i] - delay_there),
        ]
        lines.sort(key=lambda line: line[0] is not action)  # that of the action first
        fewer, lost, now = n, np.zeros(len(i)), 0.0
        for each, there, step_there, step_here in lines:
            scale = norm_s if each is Action.MATCH else 1.0
            here, by = own.of(each) / scale, (own.of(each) - other.of(each)) / scale
            delay, ratio = config.local_delay_threshold, config.local_ratio_threshold
            threshold = delay if each is Action.MATCH else ratio
            if each is action:
                fewer = n = np.minimum(n, _most_below(there, step_there, here))
            else:
                limit = max(WELL_WITHIN * threshold, -by)
                fits = _most_up_to(there - here, step_there + step_here, limit)
                fewer = np.minimum(fewer, fits)
            ours = (
                self._own_input(i, n, step_here) if each is Action.INPUT else here - step_here * n
            )
            lost += np.maximum(np.abs(ours - there - step_there * n), threshold)
            now += max(abs(by), threshold)
        return np.where(fewer >= 1, fewer, np.where(lost < now - EQUAL, n, 0.0))

    def _guarded(self, i: Positions, there: Floats, step_there: Floats) -> Floats:
        """How many leave the other's input no higher above the own than the threshold.

        Without this guard of figure 4.8, input and output offload send the same subscriptions back and
        forth (tables 4.2 to 4.5). An overloaded output may be lowered all the same, as far as to the lower
        overload threshold: there the broker stays N/A, and nothing is sent back to it.
        """
        scales, own = self.scales, self.scales.own
        threshold, clients = scales.config.local_ratio_threshold, scales.clients[i]
        step_here = self._input_here[i]
        n = _most_up_to(there - self._input_now_here(), step_there + step_here, threshold)
        n = np.minimum(n, clients)
        # The last subscriber lowers the own input by all that it alone attracted.
        above = there + step_there * n - self._own_input(i, n, step_here)
        is_last = (n == clients) & (scales.reducible[i] > 0)
        n = np.where(is_last & (above > threshold), n - 1.0, n)
        if self._is_overloaded:
            sent = output_ratio(own, own.output_bytes_per_s)
            low = scales.config.overload_low
            n = np.maximum(n, _most_up_to(-sent, self._output_here[i], -low))
        return n

    def _printed(self, i: Positions, now: float, step: Floats) -> Floats:
        """Figure 4.8 with its guard as printed, which follows no line: all n are tried."""
        there, step_there = self._input_now_there(i), self._input_there[i]
        step_here, threshold = self._input_here[i], self.scales.config.local_ratio_threshold
        bounds = self._bounds(i, there, step_there)
        counts, was_balanced = np.zeros(len(i)), np.zeros(len(i), np.bool_)
        going = bounds >= 1
        for n in range(int(bounds.max(initial=0.0)), 0, -1):
            ours = self._own_input(i, np.full(len(i), float(n)), step_here)
            difference = now - step * n
            tried = going & (n <= bounds)
            tried &= ~((there + step_there * n > ours) & (np.abs(difference) > threshold))
            is_balanced = difference < self._balance_percentage
            ends = tried & ~is_balanced
            counts[ends] = np.where(was_balanced[ends], n + 1.0, n)
            going &= ~ends
            was_balanced |= tried & is_balanced
        counts[going & was_balanced] = 1.0
        return counts

    # --- where the lines begin

    @property
    def _balance_percentage(self) -> float:
        return self.scales.config.balance_percentage

    def _input_now_here(self) -> float:
        own = self.scales.own
        return own.input_factor * own.work()

    def _input_now_there(self, i: Positions) -> Floats:
        """With the publications that each would bring."""
        other = self.scales.other
        busy = work(other, other.subscriptions, self._rate_there[i], other.output_rate)
        return other.input_factor * busy

    def _own_input(self, i: Positions, n: Floats, step: Floats) -> Floats:
        """The offloading broker's input without so many: the last takes its publications along."""
        own = self.scales.own
        rest = self._input_now_here() - step * n
        is_last = (n == self.scales.clients[i]) & (self.scales.reducible[i] > 0)
        if is_last.any():
            busy = work(own, own.subscriptions, self._rate_last[i], own.output_rate)
            last = own.input_factor * busy - self._input_last[i] * n
            rest = np.where(is_last, last, rest)
        return np.maximum(rest, 0.0)


# --- steps ------------------------------------------------------------------------------------------


def _input_step(model: BrokerModel, rate: float | Floats, entries: Floats, rates: Floats) -> Floats:
    return _step(
        model.input_factor * (rate * entries * model.subscription_s + model.delivery_s * rates)
    )


def _memory_step(model: BrokerModel, rate: float | Floats, entries: Floats, sent: Floats) -> Floats:
    total = model.memory_total_bytes
    if not total:
        return np.full(len(entries), NO_STEP)
    each = model.memory_a_subscription_bytes + model.memory_a_queued_bytes * rate
    return _step((entries * each + model.memory_a_sent_bytes * sent) / total)


def _step(values: Floats) -> Floats:
    return np.maximum(values, NO_STEP)


def _least_below(start: float | Floats, step: Floats, limit: float) -> Floats:
    """The least n with start - step * n < limit; below 1 if that is so now, huge if it never is."""
    found: Floats = np.floor((start - limit) / step) + 1.0
    return found


def _most_below(start: float | Floats, step: Floats, limit: float) -> Floats:
    """The most n, from 0 on, with start + step * n < limit."""
    found: Floats = np.maximum(np.ceil((limit - start) / step) - 1.0, 0.0)
    return found


def _most_up_to(start: float | Floats, step: Floats, limit: float) -> Floats:
    """The most n, from 0 on, with start + step * n <= limit."""
    found: Floats = np.maximum(np.floor((limit - start) / step), 0.0)
    return found
