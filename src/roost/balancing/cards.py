"""What an offload is given, and what it gives back (001 sections 3.4.1, 4.1.1 and 4.2).

    LoadReport         how a broker fares: the eleven items of a load-balancing reply, and a few more
    SubscriptionLoad   the clients that ask for the same, and which of PRESS's samples they got
    Spectrum           all of these at the offloading broker: what PRESS has found
    ReportCard         what it would mean to move subscribers of one subscription
    Offload            who is to move, why, and what is predicted of both brokers

A `LoadReport` and an `Offload` go over the wire and into records as they are.
"""

from __future__ import annotations

from msgspec import Struct

from roost.balancing.indices import Action, BrokerIndices
from roost.language import Subscription


class LoadReport(Struct, frozen=True, kw_only=True):
    """How a broker fares, for whoever is to estimate what more or fewer clients would do to it."""

    # --- the eleven items of a reply (3.4.1)
    css: tuple[str, ...] = ()  # the covering subscription set, as texts
    cpu_ratio: float
    input_bytes_per_s: float  # i_b
    input_queue_bytes: float  # m_i
    input_rate: float  # i_r: publications a second
    matching_slope_s: float  # what one more subscription adds to the matching delay
    memory_total_bytes: float  # m_t; 0: not known, and not estimated
    output_total_bytes_per_s: float  # o_t; 0: nobody has said how much there is
    subscriptions: int  # n
    output_bytes_per_s: float  # o_u
    output_queue_bytes: float  # m_o

    # --- what the formulas need besides
    matching_delay_s: float  # d_m
    input_ratio: float  # I_r, as it was measured
    matching_memory_bytes: float = 0.0  # m_m
    memory_slope_bytes: float = 0.0  # what one more subscription adds to it
    output_rate: float = 0.0  # messages a second
    publication_s: float = 0.0  # what a publication takes, whatever there is to be matched
    delivery_s: float = 0.0  # what a message that is sent takes
    base: float = 0.0  # the part of a second that is taken even when nothing comes
    is_sure: bool = True  # whether it has seen enough to tell these costs


class SubscriptionLoad(Struct, frozen=True):
    """Clients that ask for the same, which is one subscription, and its publications among the samples."""

    clients: tuple[str, ...]  # those that may be moved
    interests: tuple[Subscription, ...]  # what each of them asks for; of several the OR counts
    bits: bytes  # bit i, from the lowest of the first byte on: sample i matched (`BitVector`)
    message_bytes: float  # of a delivery, on average
    kept: int = 0  # clients that ask for the same, and may not be moved


class Spectrum(Struct, frozen=True):
    """What PRESS has found at the offloading broker."""

    samples: int  # publications that were taken; N
    input_rate: float  # publications a second meanwhile; i_r
    loads: tuple[SubscriptionLoad, ...]
    css_bits: bytes  # samples that the accepting broker's covering subscription set matched (4.3)
    # Samples that come to the offloading broker whoever moves: those of its own publishers, for its other
    # neighbours, for clients that stay and share their subscription with nobody who may move.
    kept_bits: bytes = b""


class ReportCard(Struct, frozen=True, gc=False):
    """What it would mean to move this many subscribers of one subscription (4.2.1)."""

    subscription: int  # its position in the spectrum
    subscribers: int  # that would move
    difference: float  # of the two brokers then; negative: the offloading one is less loaded
    is_covered: bool  # by the accepting broker's CSS
    reduced_rate: float  # publications a second that the offloading broker would no longer get
    reducible_rate: float  # the same if all of its subscribers moved
    output_bytes_per_s: float  # that one subscriber needs
    output_rate: float  # messages a second that one subscriber gets
    extra_rate: float  # publications a second that would be new to the accepting broker


class Offload(Struct, frozen=True, kw_only=True):
    """Who is to move."""

    action: Action
    is_overloaded: bool  # whether it was chosen to end an overload
    clients: tuple[str, ...]
    cards: tuple[ReportCard, ...]  # those that were chosen, in that order
    considered: int  # cards that were looked at
    ended: str  # why there are no more
    own: BrokerIndices  # before, as the estimates have it
    other: BrokerIndices
    own_predicted: BrokerIndices
    other_predicted: BrokerIndices
