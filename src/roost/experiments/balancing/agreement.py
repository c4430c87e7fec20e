"""Whether optimisers that act together agree, from the decisions that they have recorded.

    moves_MODULE         clients that a module has moved
    two_leases           moves of a client that began before another move of it was over
    within_rest          moves that began before the client had rested from the last one
    refused              proposals that somebody objected to
    refused_silently     those of them that do not say who objected, and why

Each move that is carried out says how long it took: from the lease to the end of the old session.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

# Rounding is no breach.
SLACK_S = 1e-6


def agreement(decisions: Sequence[Mapping[str, Any]], rest_s: float) -> dict[str, float]:
    """All of them."""
    moves: Counter[str] = Counter()
    times: dict[str, list[tuple[float, float]]] = {}
    refused = silent = 0
    for row in decisions:
        if row["kind"] == "carried out":
            end = float(row["time"])
            took_s = float(json.loads(row["evidence"])["took_s"])
            times.setdefault(str(row["subject"]), []).append((end - took_s, end))
            moves[str(row["module"])] += 1
        elif row["kind"] == "refused":
            evidence = json.loads(row["evidence"])
            refused += 1
            silent += not (evidence.get("by") and evidence.get("why"))
    gaps = [gap for of_client in times.values() for gap in _gaps(of_client)]
    return {
        **{f"moves_{module}": float(count) for module, count in moves.items()},
        "two_leases": float(sum(gap < -SLACK_S for gap in gaps)),
        "within_rest": float(sum(gap < rest_s - SLACK_S for gap in gaps)),
        "refused": float(refused),
        "refused_silently": float(silent),
    }


def _gaps(times: list[tuple[float, float]]) -> list[float]:
    """From the end of each move to the beginning of the next."""
    times.sort()
    return [start - end for (_, end), (start, _) in pairwise(times)]
