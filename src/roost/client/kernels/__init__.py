"""Compiled code of the client library, where Numba is there: from columns to frames, and back."""

from pathlib import Path

from roost.matching.kernels.jit import FOLDER as MATCHING
from roost.matching.kernels.jit import Workshop

_here = Workshop(Path(__file__).parent, MATCHING)
lean, inlined = _here.lean, _here.inlined
