"""Profiles: the statistics of the papers, from recorded traffic instead of counters.

vectors-100   GRAPE's delivery vectors (000 section 4.1)
pop           POP's averages over traced publications (000 section 3.1)
traffic       messages a link
loads-60      load indices over time (001 section 3.3.1)
delays        delays by hop
hitters       who publishes, receives and routes most
audiences     who got which publications
hops          what brokers and links add to the age of an event
sample-1000   events that stand for all; with what is asked for, skew by dimension (004 section VI)
press         what brokers would be rid of with a client, and who has it already (001 section 4.1)
"""

from __future__ import annotations

from roost.pipeline.profiles.audiences import audiences
from roost.pipeline.profiles.delays import delays_by_hop
from roost.pipeline.profiles.hitters import heavy_hitters
from roost.pipeline.profiles.hops import hop_times
from roost.pipeline.profiles.keeping import Kept, keep, kept
from roost.pipeline.profiles.loads import loads_over_time
from roost.pipeline.profiles.pop import pop_averages
from roost.pipeline.profiles.press import press_spectra
from roost.pipeline.profiles.profile import Profile
from roost.pipeline.profiles.sample import event_sample
from roost.pipeline.profiles.skew import skew_by_dimension
from roost.pipeline.profiles.traffic import link_traffic
from roost.pipeline.profiles.vectors import delivery_vectors

__all__ = [
    "PROFILES",
    "Kept",
    "Profile",
    "audiences",
    "delays_by_hop",
    "delivery_vectors",
    "event_sample",
    "heavy_hitters",
    "hop_times",
    "keep",
    "kept",
    "link_traffic",
    "loads_over_time",
    "pop_averages",
    "press_spectra",
    "skew_by_dimension",
]

# By name, with their defaults.
PROFILES = {
    profile.name.partition("-")[0]: profile
    for profile in (
        delivery_vectors(),
        pop_averages(),
        link_traffic(),
        loads_over_time(),
        delays_by_hop(),
        heavy_hitters(),
        audiences(),
        hop_times(),
        press_spectra(),
        event_sample(),
    )
}
