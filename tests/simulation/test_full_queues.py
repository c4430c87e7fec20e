"""A queue for a client is full: what becomes of one more delivery is a policy, and the client is told."""

from __future__ import annotations

import pytest

from roost.simulation.run import check, rest, run
from tests.simulation.lab import world_of

AWAY = """
0.0 federation set session_outbox_max 5
0.0 federation set session_outbox_policy {policy}
0.0 broker add B1 1000 16 10
1.0 publisher add P - 0 B1 a > 0
1.0 subscriber add S B1 a > 0
3.0 client vanish S
"""
BACK = """
9.0 client return S
75.0 publisher publish P [a,100]
"""


@pytest.mark.parametrize("policy", ["drop", "end"])
def test_a_full_queue(policy: str) -> None:
    events = "\n".join(f"4.{n:02} publisher publish P [a,{n + 1}]" for n in range(20))
    world = world_of(AWAY.format(policy=policy) + events + BACK)
    run(world, 80.0)
    checks = check(world, rested=rest(world), must_rest=True)
    assert checks.clean, checks.violations
    # The five that were kept, and the one after it had acknowledged them, or had a new session.
    assert checks.delivered == 6
