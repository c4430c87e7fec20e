"""What a placement comes to, and what of it counts for how much."""

from __future__ import annotations

from msgspec import Struct


class Effect(Struct, frozen=True):
    """What a placement comes to."""

    load_per_s: float  # messages between brokers
    delay_s: float  # mean, from publishing until matched where it is delivered
    busiest: float  # the highest utilisation of a broker, input or output
    busiest_broker: str = ""


class Weights(Struct, frozen=True):
    """What counts for how much; together 1."""

    load: float = 1.0
    delay: float = 0.0
    balance: float = 0.0

    def cost(self, effect: Effect, before: Effect) -> float:
        """The weighted sum that a plan is to make small; 1 is as it was."""
        return (
            self.load * _share(effect.load_per_s, before.load_per_s)
            + self.delay * _share(effect.delay_s, before.delay_s)
            + self.balance * _share(effect.busiest, before.busiest)
        )


def _share(value: float, of: float) -> float:
    return value / of if of > 0 else 1.0 if value <= 0 else 2.0
