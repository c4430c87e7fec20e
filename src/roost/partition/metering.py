"""What searching a set takes, by what was measured: a time for each message, and one for each subscription.

Whoever matches knows how many messages it has matched, and how large the sets were that it searched, but not
what that took: in the laboratory it is told, live its driver measures it, now and then. A `Meter` fits

    time of a message = message_s + entry_s * size of the set

to the means of these periods, by least squares, the last ones counting most. With an index the second is
small: what a search takes hardly depends on the set. Where all sets that were searched are about of the same
size nothing can be told apart, and time is taken to be in proportion to the set, as in the paper.
"""

from __future__ import annotations

# What a subscription takes before anything has been measured: so little that only the sizes of sets count.
UNMEASURED_S = 1e-9
# How much of what was measured before counts, for each message since.
MEMORY = 20_000
# Sizes that differ by less than this share of their mean are alike.
ALIKE = 0.02


class Meter:
    """Of one matcher."""

    def __init__(self) -> None:
        # Weighted sums: messages, sizes, sizes squared, times, times times sizes.
        self._n = self._x = self._xx = self._y = self._xy = 0.0

    def add(self, messages: int, size: float, each_s: float) -> None:
        """So many messages were matched, in sets of that size on average, and took that each."""
        keep = max(0.0, 1.0 - messages / MEMORY)
        self._n = keep * self._n + messages
        self._x = keep * self._x + messages * size
        self._xx = keep * self._xx + messages * size * size
        self._y = keep * self._y + messages * each_s
        self._xy = keep * self._xy + messages * each_s * size

    def fitted(self) -> tuple[float, float]:
        """(message_s, entry_s)."""
        if not self._n or not self._y:
            return 0.0, UNMEASURED_S
        size, each_s = self._x / self._n, self._y / self._n
        variance = self._xx / self._n - size * size
        if variance <= (ALIKE * size) ** 2 or not size:
            return (0.0, each_s / size) if size else (each_s, 0.0)
        slope = (self._xy / self._n - size * each_s) / variance
        slope = min(max(slope, 0.0), each_s / size)  # neither part is negative
        return each_s - slope * size, slope

    def search_s(self, size: int) -> float:
        """What a message takes in a set of that size."""
        message_s, entry_s = self.fitted()
        return message_s + entry_s * max(1, size)
