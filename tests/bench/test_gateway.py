"""The benchmark of the gateway: small, with a real broker and a real gateway."""

from __future__ import annotations

from roost.bench import gateway


def test_few_sinks_get_all() -> None:
    steps: list[str] = []
    result = gateway.run(3, 20, 7, steps.append)
    assert steps == ["a broker and a gateway start", "3 subscriptions", "60 notifications"]
    assert gateway.is_clean(result)
    assert result["results"]["notifications_per_s"] > 0
    table = gateway.table(result)
    assert len(table.rows) == 2
    assert table.notes[-1] == "0 lost, 0 doubled, 0 reordered."
    result["results"]["lost"] = 1
    assert not gateway.is_clean(result)
