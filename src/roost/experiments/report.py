"""What came of an experiment: its claims, charts and findings, and the sums of all checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from roost.experiments.frame import Experiment, Results, Scale
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.sweeps.tasks import BREACHES


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
        self.claims = tuple(experiment.claims(figures))
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


def checks_of(results: Sequence[Result]) -> Mapping[str, int]:
    """The sums over all cells."""
    names = ("delivered", *BREACHES)
    return {name: sum(int(r.figures.get(name) or 0) for r in results) for name in names}
