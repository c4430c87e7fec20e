"""Memory that a broker has freed stays with it, up to a bound.

What goes out is allocated a chunk and a connection at a time, some hundred thousand bytes each, and freed
when it has been acknowledged. glibc gives the end of its heap back to the system as soon as 128 KB of it
are free, and asks the system for it again a moment later: the page faults of that cost a broker with many
subscribers two fifths of all that it does for a delivery. So more is kept; and blocks up to a few megabytes
come from the heap, not from the system. Larger ones still do: they grow in place, which the index relies
on.
"""

from __future__ import annotations

import ctypes

# The numbers of the settings in <malloc.h>, and what they are set to.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
SETTINGS = ((TRIM_THRESHOLD, 64 << 20), (TOP_PAD, 1 << 20), (MMAP_THRESHOLD, 4 << 20))


def keep_freed_memory() -> bool:
    """For all of this process; False where the allocator is another, which is left as it is."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(setting, value) == 1 for setting, value in SETTINGS)
