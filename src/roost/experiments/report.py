"""What came of an experiment: its claims, charts and findings, and the sums of all checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from roost.confidence import interval
from roost.experiments.frame import Claim, Experiment, Results, Scale
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.tasks import BREACHES

# What a claim about a share of the seeds is for one of them.
SHARES = {0.0, 1.0, 100.0}


class Report:
    """Everything is computed from the figures of the cells."""

    def __init__(
        self, experiment: Experiment, scale: Scale, seeds: Sequence[int], results: Sequence[Result]
    ) -> None:
        self.experiment, self.scale, self.seeds = experiment, scale, tuple(seeds)
        self.cells = len(results)
        self.failed = [result for result in results if result.status == "failed"]
        self.checks = checks_of(results)
        figures = Results(results)
        self.claims = with_intervals(experiment, results, tuple(experiment.claims(figures)))
        self.charts = tuple(experiment.charts(figures))
        self.findings = tuple(experiment.findings(figures))
        self.pages = experiment.pages()

    @property
    def holds(self) -> bool:
        """Whether all claims hold, all cells gave figures, and no promise was broken."""
        broken = any(self.checks[name] for name in BREACHES)
        return not (self.failed or broken) and all(claim.holds for claim in self.claims)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it. Programs read these names."""
        return {
            "experiment": self.experiment.name,
            "scale": self.scale.name,
            "seeds": list(self.seeds),
            "claims": msgspec.to_builtins(self.claims),
            "checks": dict(self.checks),
            "cells": self.cells,
            "failed": len(self.failed),
            "findings": list(self.findings),
        }


def with_intervals(
    experiment: Experiment, results: Sequence[Result], claims: Sequence[Claim]
) -> tuple[Claim, ...]:
    """Claims with where their figures lie, by what they are for each seed alone.

    Not all are means over seeds: a share of the seeds, or how far seeds are apart, has no such interval.
    """
    seeds = sorted({result.seed for result in results if result.status == "done"})
    if len(seeds) < 2:
        return tuple(claims)
    alone: dict[tuple[str, str], list[float]] = {}
    for seed in seeds:
        own = Results(result for result in results if result.seed == seed)
        for claim in experiment.claims(own):
            if claim.ours is not None:
                alone.setdefault((claim.id, claim.what), []).append(claim.ours)
    return tuple(
        msgspec.structs.replace(claim, interval=_interval(claim, alone.get((claim.id, claim.what))))
        for claim in claims
    )


def _interval(claim: Claim, alone: Sequence[float] | None) -> tuple[float, float] | None:
    if claim.ours is None or not alone or set(alone) <= SHARES:
        return None
    found = interval(alone)
    if found is None:
        return None
    slack = 1e-9 * max(map(abs, (*alone, claim.ours)))
    return found if found[0] - slack <= claim.ours <= found[1] + slack else None


def checks_of(results: Sequence[Result]) -> Mapping[str, int]:
    """The sums over all cells."""
    names = ("delivered", *BREACHES)
    return {name: sum(int(r.figures.get(name) or 0) for r in results) for name in names}
