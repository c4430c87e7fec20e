"""A synthetic wide-area network: a matrix of round-trip times between sites, from a seed.

Measured matrices (PlanetLab's, King's) have three traits in common, and these are put in. Sites come in
regions, a few dozen milliseconds across, and regions are far from each other. Routes are longer than straight
lines, by a factor that differs from pair to pair, so that the triangle inequality does not hold. And some
sites are slow wherever one comes from: what their access adds has a heavy tail.

Who has a measured matrix gives its file instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.simulation.generators.parts import draws

# The plane, about as wide and high as the inhabited world, in km.
WIDTH_KM, HEIGHT_KM = 18_000.0, 6_000.0
REGIONS = 5
REGION_KM = 700.0  # standard deviation of sites around the middle of theirs
KM_PER_MS = 200.0  # light in fibre
# Routes: this much longer than straight lines, and by how much that varies (of the logarithm).
DETOUR, DETOUR_SPREAD = 1.6, 0.25
# What the access of a site adds to a round trip: a Pareto tail beyond the least.
ACCESS_MS, ACCESS_TAIL = 1.0, 1.3
ACCESS_MAX_MS = 150.0


def wide_area(sites: int, seed: int) -> NDArray[np.float64]:
    """Round-trip times in ms: symmetric, 0 on the diagonal."""
    rng = draws(seed, "wide area")
    middles = rng.uniform((0, 0), (WIDTH_KM, HEIGHT_KM), (REGIONS, 2))
    places = middles[rng.integers(REGIONS, size=sites)] + rng.normal(0, REGION_KM, (sites, 2))
    straight_km = np.linalg.norm(places[:, None] - places[None], axis=2)
    access_ms = np.minimum(ACCESS_MS * (1 + rng.pareto(ACCESS_TAIL, sites)), ACCESS_MAX_MS)
    # One draw a pair, the same in both directions.
    detours = np.triu(DETOUR * rng.lognormal(0, DETOUR_SPREAD, (sites, sites)), 1)
    rtt_ms: NDArray[np.float64] = 2 * straight_km / KM_PER_MS * (detours + detours.T)
    rtt_ms += access_ms[:, None] + access_ms[None, :]
    np.fill_diagonal(rtt_ms, 0.0)
    return rtt_ms
