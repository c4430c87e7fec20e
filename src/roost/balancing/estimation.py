"""What more or fewer subscriptions would do to a broker (001 section 4.1).

**PRESS** has noted which of N publications each subscription matched. A share of the bits is a share of what
comes in: the rate of a subscription (4.1). The accepting broker gets what any of its covering subscriptions
matches, their OR (4.3). What a candidate would add is what it has beyond that, ANDNOT (4.4, 4.5), and once
it has moved, its bits belong to the others (4.6; the equation is printed with seven bits, of six).

**Work.** The thesis' broker takes for a publication what is in proportion to its subscriptions (4.7), or
along a slope (4.1.2). A live one also takes its time for each message that it sends, and has something to do
when nothing comes. One formula has all of this, for i publications a second among n subscriptions that make
o messages a second:

    work      = b + i * (p + s * n) + c * o       seconds of matching in a second
    I_r       = work                              (4.8), times what a measured I_r differs from it by
    d_m       = work / i

with p what a publication takes, s a subscription and c a message. (4.7) is s = d_m / n, and the others
nothing; with a slope, p is the rest; where costs are fitted, b is (`costs`). Where a broker has only a part
of a processor, its I_r is higher than its work by that part: hence the factor. The processor follows the work
as well, from where it is: a broker that works off a full queue is busier than what comes in would have it.

**Output** (4.9, 4.10) and **memory** (4.11 to 4.16) are as printed, with the matching engine's memory along a
slope, as section 4.1.5 says. Where one asks for many at once, the formulas take arrays of rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from roost.balancing.cards import LoadReport
from roost.balancing.indices import BrokerIndices
from roost.optimising.bitvector import BitVector

Floats = NDArray[np.float64]
Amount = TypeVar("Amount", float, Floats)


# --- PRESS ------------------------------------------------------------------------------------------


def publication_rate(bits: BitVector, samples: int, input_rate: float) -> float:
    """How many publications a second match a subscription (4.1)."""
    return input_rate * bits.count() / samples if samples else 0.0


def aggregated(vectors: Iterable[BitVector]) -> BitVector:
    """What any of several subscriptions matches (4.3)."""
    return reduce(or_, vectors, BitVector())


def additional_rate(bits: BitVector, css: BitVector, samples: int, input_rate: float) -> float:
    """How many publications a second a subscription would bring that are new there (4.4, 4.5)."""
    return publication_rate(bits - css, samples, input_rate)


# --- a broker ---------------------------------------------------------------------------------------


class BrokerModel(Struct, frozen=True, kw_only=True):
    """A broker's load, and what it follows from."""

    subscriptions: float  # n
    input_rate: float  # i
    output_rate: float  # o
    output_bytes_per_s: float  # o_u

    base: float  # b
    publication_s: float  # p
    subscription_s: float  # s
    delivery_s: float  # c
    input_factor: float  # the measured I_r over the work
    cpu_factor: float  # the measured processor's ratio over the work
    output_total_bytes_per_s: float  # 0: not known

    # Memory: what does not change with the load, and what is in proportion to a product or a number.
    memory_total_bytes: float  # 0: not known
    memory_fixed_bytes: float
    memory_a_subscription_bytes: float
    memory_a_queued_bytes: float  # of the input queue, over input_rate * subscriptions
    memory_a_sent_bytes: float  # of the output queue, over output_bytes_per_s

    def work(self) -> float:
        """Seconds of matching in a second."""
        return work(self, self.subscriptions, self.input_rate, self.output_rate)

    def indices(self) -> BrokerIndices:
        """The five ratios and delays."""
        busy, i = self.work(), self.input_rate
        delay_s = self.publication_s + self.subscription_s * self.subscriptions
        return BrokerIndices(
            input_ratio=self.input_factor * busy,
            output_ratio=output_ratio(self, self.output_bytes_per_s),
            matching_delay_s=busy / i if i else delay_s,
            cpu_ratio=self.cpu_factor * busy,
            memory_ratio=memory_ratio(
                self, self.subscriptions, self.input_rate, self.output_bytes_per_s
            ),
        )

    def changed(
        self, subscriptions: float, input_rate: float, output_rate: float, output_bytes: float
    ) -> BrokerModel:
        """With so much more of each; nothing falls below 0, whatever samples say."""
        return _replaced(
            self,
            max(0.0, self.subscriptions + subscriptions),
            max(0.0, self.input_rate + input_rate),
            max(0.0, self.output_rate + output_rate),
            max(0.0, self.output_bytes_per_s + output_bytes),
        )


def _replaced(model: BrokerModel, n: float, i: float, o: float, bytes_per_s: float) -> BrokerModel:
    # Thousands of times a decision: `structs.replace` looks at each of the fields.
    return BrokerModel(
        subscriptions=n,
        input_rate=i,
        output_rate=o,
        output_bytes_per_s=bytes_per_s,
        base=model.base,
        publication_s=model.publication_s,
        subscription_s=model.subscription_s,
        delivery_s=model.delivery_s,
        input_factor=model.input_factor,
        cpu_factor=model.cpu_factor,
        output_total_bytes_per_s=model.output_total_bytes_per_s,
        memory_total_bytes=model.memory_total_bytes,
        memory_fixed_bytes=model.memory_fixed_bytes,
        memory_a_subscription_bytes=model.memory_a_subscription_bytes,
        memory_a_queued_bytes=model.memory_a_queued_bytes,
        memory_a_sent_bytes=model.memory_a_sent_bytes,
    )


def model_of(report: LoadReport) -> BrokerModel:
    """The model that reproduces what a broker reports."""
    n, i = float(report.subscriptions), report.input_rate
    busy = report.base + i * (report.publication_s + report.matching_slope_s * n)
    busy += report.delivery_s * report.output_rate
    sent = report.output_bytes_per_s
    return BrokerModel(
        subscriptions=n,
        input_rate=i,
        output_rate=report.output_rate,
        output_bytes_per_s=sent,
        base=report.base,
        publication_s=report.publication_s,
        subscription_s=report.matching_slope_s,
        delivery_s=report.delivery_s,
        input_factor=report.input_ratio / busy if busy > 0 and report.input_ratio > 0 else 1.0,
        cpu_factor=report.cpu_ratio / busy if busy > 0 and report.cpu_ratio > 0 else 1.0,
        output_total_bytes_per_s=report.output_total_bytes_per_s,
        memory_total_bytes=report.memory_total_bytes,
        memory_fixed_bytes=report.matching_memory_bytes - report.memory_slope_bytes * n,
        memory_a_subscription_bytes=report.memory_slope_bytes,
        memory_a_queued_bytes=report.input_queue_bytes / (i * n) if i * n else 0.0,
        memory_a_sent_bytes=report.output_queue_bytes / sent if sent else 0.0,
    )


def like(report: LoadReport, own: LoadReport) -> LoadReport:
    """A broker that has not seen enough to tell its costs: they are like those here.

    But together they explain no more than it has measured: a faster broker is known by that.
    """
    if report.is_sure:
        return report
    n, i, o = report.subscriptions, report.input_rate, report.output_rate
    delay_s = own.publication_s + own.matching_slope_s * n + (own.delivery_s * o / i if i else 0.0)
    measured_s = report.matching_delay_s
    share = min(1.0, measured_s / delay_s) if measured_s and delay_s else 1.0
    return replace(
        report,
        matching_slope_s=own.matching_slope_s * share,
        publication_s=own.publication_s * share,
        delivery_s=own.delivery_s * share,
        base=max(0.0, measured_s - delay_s * share) * i,
    )


def work(model: BrokerModel, n: float, i: Amount, o: float) -> Amount:
    """Seconds of matching in a second."""
    each = model.publication_s + model.subscription_s * n
    return i * each + (model.delivery_s * o + model.base)


def output_ratio(model: BrokerModel, bytes_per_s: Amount) -> Amount:
    """(4.9); nothing where nobody has said how much there is."""
    total = model.output_total_bytes_per_s
    return bytes_per_s / total if total else bytes_per_s * 0.0


def memory_ratio(model: BrokerModel, n: float, i: Amount, bytes_per_s: float) -> Amount:
    """(4.12) to (4.16): both queues, and the matching engine; nothing where the total is not known."""
    used = (
        model.memory_fixed_bytes
        + model.memory_a_subscription_bytes * n
        + model.memory_a_queued_bytes * i * n
        + model.memory_a_sent_bytes * bytes_per_s
    )
    total = model.memory_total_bytes
    return used / total if total else used * 0.0
