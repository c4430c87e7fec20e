"""Compiled code of those who deliver: from numbers of subscriptions to the frames that clients get."""

from pathlib import Path

from roost.matching.kernels.jit import Workshop

kernel = Workshop(Path(__file__).parent).kernel
