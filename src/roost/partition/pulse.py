"""How a service fares, as one dispatcher feels it, and what it wishes for: a matcher more, or one less.

It gathers, by second, how long events took until they were answered, and how busy matchers say they are;
`elasticity` judges. What was before a change of the table says nothing of what is now, so a change begins
the watch anew: whoever provides matchers (`provisioning`) is not asked for a second one before the first
had time to show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.partition.elasticity import Wish, is_saturated, spare


class Patience(Struct, frozen=True, kw_only=True):
    """How long a dispatcher looks before it wishes."""

    watch_s: int  # response times of so many seconds are judged
    bearable_s: float
    idle_s: int  # one matcher could have been spared for so long
    busy_max: float


class Pulse:
    """Of one dispatcher. `look` is called once a second."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._times: deque[float] = deque(maxlen=patience.watch_s)
        self._spares: deque[str] = deque(maxlen=patience.idle_s)
        self._total_s, self._count = 0.0, 0  # of this second
        self.is_full = False  # in this second publishers were stopped
        self._full: deque[bool] = deque(maxlen=patience.watch_s)
        self.last_s = 0.0  # the response time of the last second
        self.wish: Wish = ""

    @property
    def times_s(self) -> Sequence[float]:
        """The response times that are judged, a second each, the oldest first."""
        return tuple(self._times)

    @property
    def spare(self) -> str:
        """The matcher that could go, of late."""
        return self._spares[-1] if self._spares else ""

    def answered(self, count: int, took_s: float) -> None:
        """So many events have been, together after that time."""
        self._total_s += took_s
        self._count += count

    def look(self, waits_s: float, busy: Mapping[str, float]) -> Wish:
        """A second is over. `waits_s`: how long the event has waited that waits longest."""
        self.last_s = self._total_s / self._count if self._count else waits_s
        self._times.append(self.last_s)
        self._total_s, self._count = 0.0, 0
        # Publishers that are stopped make the response time stop growing.
        self._full.append(self.is_full)
        self.is_full = False
        patience, times = self._patience, self._times
        self._spares.append(spare(busy, patience.busy_max))
        busiest = max(busy.values(), default=0.0)
        saturated = any(self._full) or is_saturated(times, patience.bearable_s, busiest)
        if len(times) == patience.watch_s and saturated:
            self.wish = "more"
        elif len(self._spares) == patience.idle_s and all(self._spares):
            self.wish = "fewer"
        else:
            self.wish = ""
        return self.wish

    def begin_anew(self) -> None:
        """The table has changed."""
        self._times.clear()
        self._spares.clear()
        self._full.clear()
        self.wish = ""
