"""One suite, both ways: what a client library promises holds at a broker and at a partitioned service.

Each test that has a broker of its own (`support.serving`) is run a second time with the dispatcher of a
service in its place: a few always, all of them with `-m long`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.support import House

SERVICE = "service"
# Run with a service in every run of the tests.
ALWAYS = {
    "test_all_that_an_event_carries",
    "test_events_that_match_and_no_others",
    "test_leaving_the_client_detaches",
    "test_one_that_nobody_can_read_is_detached",
}
# What these are about is a broker's own: advertisements, and events that none covers; neighbours; tables.
BROKERS_ONLY = {
    "test_arriving": {"test_a_delivery_that_nobody_waits_for_is_passed_over"},
    "test_client": {
        "test_a_broker_of_the_version_before_delays_the_first_event_only_so_long",
        "test_advertisements_follow_from_what_is_published",
        "test_advertising_oneself",
        "test_events_do_not_wait_for_their_advertisement",
        "test_leaving_leaves_nothing_behind",
        "test_refusals_are_raised_where_somebody_is",
        "test_the_first_event_gets_to_the_other_end_of_a_federation",
        "test_what_was_refused_is_raised_on_leaving_at_the_latest",
    },
    "test_durable": {"test_it_is_ready_though_a_neighbour_is_away"},
    "test_outbox": {
        "test_a_refused_advertisement",
        "test_a_refused_event_is_not_skipped",
        "test_forgetting_it",
        "test_permissions",
    },
    "test_reconnect": {"test_the_brokers_of_a_url_in_turn"},
    "test_runs": {"test_a_refusal_amid_many"},
    "test_security": {"test_what_was_not_granted"},
    "test_transient": {"test_a_broker_that_cannot_tell_yet_is_asked_again"},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name, module = metafunc.function.__name__, metafunc.module
    without = BROKERS_ONLY.get(module.__name__.rpartition(".")[2], set())
    if hasattr(module, "serving") and name not in without:
        marks = () if name in ALWAYS else pytest.mark.long
        ways = ["broker", pytest.param(SERVICE, marks=marks)]
        metafunc.parametrize("house", ways, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A broker in memory is no service."""
    items[:] = [item for item in items if not _is_in_memory(item)]


def _is_in_memory(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("house") == SERVICE and params.get("kind") == "memory"


@pytest.fixture(autouse=True)
def house(request: pytest.FixtureRequest) -> Iterator[None]:
    """Who serves."""
    House.is_service = getattr(request, "param", "broker") == SERVICE
    yield
    House.is_service = False
