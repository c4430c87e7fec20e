"""Spark joins `roost demo` when it is ready: it starts in a thread, while there is something to see."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Joining:
    """A session on its way. The end of `with` is its end, if it is ours."""

    def __init__(self, conf: Sequence[str]) -> None:
        from roost.cli.spark import session_of

        self._context: AbstractContextManager[SparkSession] = session_of(None, conf)
        self._session: SparkSession | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._join, name="Spark")
        self._has_begun = False

    def _join(self) -> None:
        try:
            self._session = self._context.__enter__()
        except BaseException as failure:  # whoever waits for it gets it
            self._failure = failure

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """From now on it starts: when there is something to see, which it would slow down."""
        if self._has_begun:
            return
        self._has_begun = True
        if runs_here():
            self._join()  # at once; it is somebody else's, and known as such in this thread only
        else:
            self._thread.start()

    def is_here(self) -> bool:
        """Whether it has started, which it does at the latest now; what has kept it from that is raised."""
        self.begin()
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def session(self) -> SparkSession:
        """It, as soon as it is there."""
        self.begin()
        if self._thread.ident is not None:
            self._thread.join()
        self.is_here()
        assert self._session is not None
        return self._session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # One that is half started is known to nobody: it has to be there before it can be ended.
        while self._thread.is_alive():
            try:
                self._thread.join()
            except (KeyboardInterrupt, SystemExit):
                continue  # we are leaving already
        if self._session is not None:
            self._context.__exit__(None, None, None)


def runs_here() -> bool:
    """Whether this process has a session already."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None
