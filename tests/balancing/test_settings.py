"""What load balancing is told: table 5.2, profiles, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from roost import balancing
from roost.balancing import (
    PROFILES,
    Action,
    BalancingConfig,
    BrokerIndices,
    LoadReport,
    Offload,
    ReportCard,
    Rules,
)
from roost.balancing.draws import Draws
from roost.broker.registry import settings_of
from roost.errors import UserError

TABLE_5_2 = {
    "pie_ratio_threshold": 0.025,
    "pie_delay_threshold": 0.025,
    "local_pie_period_s": 30,
    "global_pie_period_s": 60,
    "press_samples": 50,
    "press_timeout_s": 30,
    "overload_low": 0.9,
    "overload_high": 0.95,
    "local_ratio_threshold": 0.1,
    "local_delay_threshold": 0.1,
    "global_ratio_threshold": 0.15,
    "global_delay_threshold": 0.15,
    "stabilise_s": 30,
    "stabilise_percentage": 0.05,
    "delay_normalisation_s": 0.1,
    "local_detection_min_s": 20,
    "local_detection_max_s": 40,
    "global_detection_min_s": 50,
    "global_detection_max_s": 70,
    "balance_percentage": 0.005,
    "smoothing": 0.75,
    "global_request_threshold": 3,
    "migration_timeout_s": 10,
}


def test_defaults_are_those_of_table_5_2() -> None:
    config = BalancingConfig()
    assert {name: getattr(config, name) for name in TABLE_5_2} == TABLE_5_2


def test_every_rule_can_be_set_by_itself() -> None:
    """And is not, unless somebody says so."""
    defaults = msgspec.structs.asdict(BalancingConfig())
    assert {defaults[name] for name in Rules.__struct_fields__} == {"profile", -1}


def test_every_setting_says_what_it_is_for() -> None:
    """For the documented file of settings."""
    for field in msgspec.structs.fields(BalancingConfig):
        info = msgspec.inspect.type_info(field.type)
        assert isinstance(info, msgspec.inspect.Metadata), field.name
        assert (info.extra_json_schema or {})["description"].endswith(".")
        assert isinstance(field.default, (str, int, float))


def test_every_setting_is_heeded() -> None:
    """Somewhere in the package it is read: what has no effect is no setting."""
    folder = Path(balancing.__file__).parent
    texts = [p.read_text("utf-8") for p in folder.rglob("*.py") if p.name != "settings.py"]
    code = "\n".join(texts)
    names = {*BalancingConfig.__struct_fields__, *Rules.__struct_fields__} - {"profile"}
    assert [name for name in sorted(names) if not re.search(rf"\.{name}\b", code)] == []


def test_what_is_drawn_depends_on_the_seed() -> None:
    drawn = [Draws("B1", seed).between(0, 1, "detection") for seed in (0, 1, 2)]
    assert len(set(drawn)) == 3
    assert drawn == [Draws("B1", seed).between(0, 1, "detection") for seed in (0, 1, 2)]


def test_profiles() -> None:
    assert BalancingConfig(profile="thesis").rules == PROFILES["thesis"]
    assert BalancingConfig().rules == PROFILES["roost"]
    roost = PROFILES["roost"]
    assert roost.accept_limit == 0.8
    assert roost.newcomers == "least_loaded"
    assert roost.back_off_s > 0


def test_a_rule_that_is_set_goes_before_the_profile() -> None:
    config = BalancingConfig(profile="roost", newcomers="random", stabilising_refuses="no")
    assert config.rules.newcomers == "random"
    assert not config.rules.stabilising_refuses
    assert config.rules.accept_limit == 0.8


def test_a_lower_threshold_lowers_what_is_accepted() -> None:
    assert BalancingConfig(overload_low=0.7).rules.accept_limit == 0.7


def test_words_of_a_workload() -> None:
    words = {
        "profile": "thesis",
        "press_samples": "10",
        "smoothing": "0.5",
        "stabilising_refuses": "no",
        "accept_limit": "0.7",
        "guard": "output",
    }
    config = settings_of("the module balancing", BalancingConfig, words)
    assert isinstance(config, BalancingConfig)
    assert (config.press_samples, config.smoothing) == (10, 0.5)
    assert (config.rules.accept_limit, config.rules.guard) == (0.7, "output")
    assert not config.rules.stabilising_refuses


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"press_samples": "0"}, "press_samples 0; expected more than 0"),
        ({"stabilise_s": "-1"}, "stabilise_s -1; expected 0 or more"),
        ({"back_off_s": "-2"}, "back_off_s -2; expected 0 or more"),
        ({"overload_low": "0.99"}, "overload_low 0.99 is above overload_high 0.95"),
        ({"local_ratio_threshold": "0.2"}, "is above global_ratio_threshold 0.15"),
        ({"local_detection_min_s": "50"}, "is above local_detection_max_s 40"),
        ({"smoothing": "1.5"}, "smoothing 1.5; expected at most 1"),
        ({"overload_high": "1.2"}, "overload_high 1.2; expected at most 1"),
        ({"accept_limit": "0.95"}, "accept_limit 0.95; expected more than 0, and at most"),
        ({"profile": "fast"}, "Invalid enum value 'fast'"),
    ],
)
def test_what_will_not_do(words: dict[str, str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint.replace("(", r"\(")):
        settings_of("the module balancing", BalancingConfig, words)


def test_structs_go_over_the_wire() -> None:
    """A reply, and what an offload gives back."""
    report = LoadReport(
        css=("a > 1", "b < 2"),
        cpu_ratio=0.1,
        input_bytes_per_s=1.0,
        input_queue_bytes=0.0,
        input_rate=2.0,
        matching_slope_s=1e-4,
        memory_total_bytes=1e6,
        output_total_bytes_per_s=1e5,
        subscriptions=3,
        output_bytes_per_s=4.0,
        output_queue_bytes=0.0,
        matching_delay_s=0.01,
        input_ratio=0.02,
    )
    indices = BrokerIndices(0.1, 0.2, 0.3, 0.4, 0.5)
    offload = Offload(
        action=Action.MATCH,
        is_overloaded=True,
        clients=("S1",),
        cards=(ReportCard(0, 1, -0.1, True, 0.0, 0.0, 100.0, 1.0, 0.0),),
        considered=1,
        ended="balanced",
        own=indices,
        other=indices,
        own_predicted=indices,
        other_predicted=indices,
    )
    for each in (report, offload):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(each), type=type(each)) == each
