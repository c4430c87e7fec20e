"""How much a service bears: the largest of some shares of the best division at which it keeps up."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from roost.experiments.frame import Results


def borne(cells: Results, shares: Sequence[float]) -> float:
    """The largest share that is borne in all runs, with all smaller ones; NaN if there is none."""
    found = nan
    for share in shares:
        runs = cells.where(share=share).done
        if not runs or not all(result.figures.get("bears") for result in runs):
            break
        found = share
    return found
