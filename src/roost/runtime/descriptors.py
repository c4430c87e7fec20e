"""Open files: how many this process may have, and how many of them may be connections.

Every connection is one. When there are no more, nobody can be accepted, not even to be told so, and the
broker can't open its own: the users file, the store's, those of the system that say how it fares. So the
limit is raised at the start as far as the system allows, and connections get what is left above a reserve.
"""

from __future__ import annotations

import contextlib
import os
import resource

# For the broker's own: the store, the log, files that are read for a moment, threads, the listeners, the
# admin face with its 64 connections, and those who are being turned away.
OWN_FILES = 192
# Nobody needs more, whatever the system allows.
WANTED_MAX = 1 << 20


def raise_limit(connections: int) -> None:
    """Allow for so many connections, or as many as may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(connections + OWN_FILES + _open_now(), WANTED_MAX)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and wanted > soft:
        with contextlib.suppress(ValueError, OSError):  # then it has to do with what there is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_possible() -> int:
    """How many connections there may be, with what is open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return WANTED_MAX
    # A process with very few has to share them somehow.
    return max(1, soft // 4, soft - _open_now() - OWN_FILES)


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 32
