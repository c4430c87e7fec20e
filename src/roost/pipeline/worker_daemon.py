"""The process that Spark forks its Python workers from, with everything in it that they need.

Spark's own daemon imports nothing before it forks, so that each worker imports pyarrow, pandas and numba for
itself and reads the kernels from their cache: a second or more. Here it is done once, and the workers share
the memory. Spark makes a worker collect its garbage after every task; what is there before the fork is
frozen, so that this takes no time, and the shared pages stay shared.

Why Spark is careful: a fork takes along only the thread that forks. Of what is imported here only jemalloc
(within pyarrow) has a thread, and it is prepared for forks.
"""

from __future__ import annotations

import gc
import socket
import sys

from pyspark import daemon

# The module that Spark names for tasks; daemons for anything else (data sources, say) fork once or twice.
TASKS = "pyspark.worker"


def warm_up() -> None:
    """Load what tasks load on first use."""
    import pandas  # noqa: F401, PLC0415 (as is everything here: other daemons need none of it)
    import pyarrow.compute  # noqa: F401, PLC0415
    import pyspark.worker  # noqa: F401, PLC0415

    from roost.matching.kernels.__main__ import compile_all  # noqa: PLC0415

    compile_all()
    gc.collect()
    gc.freeze()


def main() -> None:
    """Be Spark's daemon."""
    if sys.argv[1:] == [TASKS]:
        warm_up()
    spark_worker = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        """Ends without a word when nobody listens any more: at the end of a session nobody does."""
        try:
            return spark_worker(sock, authenticated)
        except BrokenPipeError:
            return 1

    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
