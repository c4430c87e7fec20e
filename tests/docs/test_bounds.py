"""What docs/OPERATING.md says that one user may cost at most, within the quotas that nobody has set."""

from __future__ import annotations

from pathlib import Path

from roost.broker.config import BrokerConfig, UserQuotas
from roost.broker.patience import WAIT_S
from roost.broker.sessions import PAUSE_PART

DOCUMENT = Path(__file__).parents[2] / "docs" / "OPERATING.md"


def test_bounds_of_one_user() -> None:
    quotas = UserQuotas()
    config = BrokerConfig(broker="B0", incarnation="i")
    waiting = config.session_outbox_bytes_max
    _, _, after = DOCUMENT.read_text("utf-8").partition("within the default quotas")
    lines = [line for line in after.splitlines() if line.startswith("|")][2:8]
    bounds = [[cell.strip() for cell in line.strip("|").split("|")][2:] for line in lines]
    assert [bound for bound, _ in bounds] == [
        f"{quotas.sessions:,}",
        f"{quotas.subscriptions:,}",
        f"{quotas.answers:,} a session, or what one read brought;"
        f" from {quotas.answers // PAUSE_PART:,} on its events are read no further",
        f"{waiting // 1_000_000} MB a session",
        f"those who publish what it wants are read no further for {WAIT_S:g} s at a time, and"
        f" {config.session_outbox_max // 4:,} events (a quarter of `session_outbox_max`) come in between",
        f"{quotas.kept_bytes // 1_000_000_000} GB, or a quarter of `retained_bytes_max`",
    ]
    assert bounds[2][1].endswith(f" in {quotas.sessions} sessions")
    in_memory = waiting * quotas.sessions / 1_000_000_000
    assert bounds[3][1] == f"{in_memory:.1f} GB in {quotas.sessions} sessions"
