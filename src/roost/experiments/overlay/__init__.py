"""The evaluation of 002 (self-organising overlays): its algorithm, OCBR, Roost's own, and the best trees."""

from roost.experiments.overlay.reference import REFERENCE
from roost.experiments.overlay.variations import VARIATIONS

EXPERIMENTS = (REFERENCE, VARIATIONS)
