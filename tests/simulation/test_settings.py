"""Settings from text: what they take, what they refuse, and back to text."""

from __future__ import annotations

import pytest

from roost.errors import UserError
from roost.simulation.settings import Settings, settings_changed, settings_with


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("commit_ms", "-1", "setting commit_ms: '-1' will not do: Expected `float` >= 0.0"),
        ("commit_ms", "nan", "setting commit_ms: 'nan' will not do: "),
        ("commit_ms", "inf", "setting commit_ms: 'inf' will not do: Expected a finite number"),
        (
            "linger_s",
            "inf",
            "setting linger_s: 'inf' will not do: Expected `float` <= 1000000000.0",
        ),
        ("linger_s", "-0.5", "Expected `float` >= 0.0"),
        ("ack_delay_s", "-inf", "Expected `float` >= 0.0"),
        ("client_latency_ms", "-3", "Expected `float` >= 0.0"),
        ("link_latency_ms", "NaN", "setting link_latency_ms: 'NaN' will not do: "),
        ("load_period_s", "0", "Expected `float` > 0.0"),
        ("load_period_s", "nan", "setting load_period_s: 'nan' will not do: "),
        ("link_outbox_max", "0", "Expected `int` >= 1"),
        ("market_seed", "-1", "Expected `int` >= 0"),
        ("payload_bytes", "-1", "Expected `int` >= 0"),
        ("payload_bytes", "10000000", "Expected `int` <= 524288"),
        ("payload_bytes", "1.5", "setting payload_bytes: '1.5' will not do: "),
        ("durability", "2", "setting durability: '2' will not do: "),
        (
            "routing",
            "magic",
            "there is no router 'magic'; expected one of advertisement, cluster, flooding, tree, or package.",
        ),
        ("speed", "1", "unknown setting 'speed'; there are routing, covering, "),
    ],
)
def test_what_makes_no_sense_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        settings_with(Settings(), key, value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("commit_ms", "0", 0.0),
        ("linger_s", "1e3", 1000.0),
        ("load_period_s", "0.5", 0.5),
        ("link_outbox_max", "1", 1),
        ("payload_bytes", "524288", 524_288),
        ("durability", "on", True),
        ("covering", "off", False),
        ("covering", "false", False),
        ("routing", "flooding", "flooding"),
    ],
)
def test_what_makes_sense_is_taken(key: str, value: str, expected: object) -> None:
    assert getattr(settings_with(Settings(), key, value), key) == expected


def test_changes_are_read_back_as_they_were() -> None:
    settings = Settings(
        routing="flooding", covering=False, durability=True, commit_ms=0.125, market_seed=7
    )
    changed = settings_changed(settings)
    assert changed == {
        "routing": "flooding",
        "covering": "off",
        "durability": "on",
        "commit_ms": "0.125",
        "market_seed": "7",
    }
    again = Settings()
    for key, value in changed.items():
        again = settings_with(again, key, value)
    assert again == settings
    assert settings_changed(Settings()) == {}
