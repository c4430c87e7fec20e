"""The experiments of the papers: set-up, run, the paper's figures, and how ours compare.

`frame` says what an experiment is, `running` runs one and keeps it, `page` shows it. Each paper has a folder.
"""

from __future__ import annotations

from difflib import get_close_matches

from roost.errors import UserError
from roost.experiments.balancing import EXPERIMENTS as BALANCING
from roost.experiments.frame import Experiment
from roost.experiments.overlay import EXPERIMENTS as OVERLAY
from roost.experiments.partition import EXPERIMENTS as PARTITION
from roost.experiments.relocation import EXPERIMENTS as RELOCATION
from roost.experiments.topologies import EXPERIMENTS as TOPOLOGIES

EXPERIMENTS = {
    each.name: each for each in (*RELOCATION, *BALANCING, *OVERLAY, *PARTITION, *TOPOLOGIES)
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = get_close_matches(name, EXPERIMENTS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UserError(f"no experiment is called {name!r}; expected {', '.join(EXPERIMENTS)}{hint}")
