"""003's cluster topology as processes: three peers in a mesh, which is a circle, and a broker below each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import roost
from roost.errors import UserError
from roost.overlay.hierarchies import parse_hierarchy
from roost.runtime.admin_client import AdminError
from roost.runtime.config import read_config
from roost.runtime.federation import CLUSTER, Federation, end, start
from roost.runtime.growing import switch
from tests.cli.support import make_roost

EVENTS = 200


async def published_and_got(federation: Federation) -> list[list[int]]:
    """Somebody below each peer hears all that is published below the others."""
    urls = [f"roost://{member.address}" for member in federation.members[3:]]
    async with (
        roost.connect(urls[0]) as one,
        roost.connect(urls[1]) as two,
        roost.connect(urls[2]) as three,
    ):
        clients = (one, two, three)
        subscriptions = [client.subscribe("n >= 0") for client in clients]
        for subscription in subscriptions:
            await subscription.ready()
        for number in range(EVENTS):
            await clients[number % 3].publish({"n": number, "from": number % 3})
        found = []
        for subscription in subscriptions:
            events = [await subscription.get() for _ in range(EVENTS)]
            by = [[int(e["n"]) for e in events if e["from"] == source] for source in range(3)]
            assert all(numbers == sorted(numbers) for numbers in by)
            found.append(sorted(n for numbers in by for n in numbers))
        return found


def test_peers_form_a_mesh_and_everything_arrives_once(tmp_path: Path) -> None:
    hierarchy = parse_hierarchy("cluster:3x1")
    state = tmp_path / "state"
    federation = start(
        state,
        hierarchy.brokers,
        [(link.a, link.b) for link in hierarchy.links],
        peers=[(link.a, link.b) for link in hierarchy.peers],
        routing=CLUSTER,
    )
    try:
        assert len(federation.links) == 6
        assert asyncio.run(published_and_got(federation)) == [list(range(EVENTS))] * 3
    finally:
        end(state)


async def published_while_it_changes(federation: Federation, ways: list[str]) -> None:
    """Events from one end to the other, and back, while all brokers change their way again and again."""
    there, here = (f"roost://{federation.members[i].address}" for i in (3, 5))
    urls = [member.admin_url for member in federation.members]
    async with roost.connect(there) as one, roost.connect(here) as other:
        subscriptions = [one.subscribe("n >= 0"), other.subscribe("n >= 0")]
        for subscription in subscriptions:
            await subscription.ready()
        number = 0
        got: tuple[list[roost.ReceivedEvent], ...] = ([], [])
        for way in ways:
            changing = asyncio.create_task(asyncio.to_thread(switch, urls, way))
            while not changing.done() or number % EVENTS:
                await (one, other)[number % 2].publish({"n": number, "from": number % 2})
                number += 1
                if number % EVENTS == 0:  # who reads nothing is ended for the sake of others
                    await all_of(subscriptions, got, number)
            await changing
        for found in got:
            for source in range(2):
                own = [event["n"] for event in found if event["from"] == source]
                assert own == list(range(source, number, 2))


async def all_of(
    subscriptions: list[roost.Subscription], got: tuple[list[roost.ReceivedEvent], ...], number: int
) -> None:
    for subscription, found in zip(subscriptions, got, strict=True):
        found += [await subscription.get() for _ in range(number - len(found))]


def test_live_brokers_change_from_cluster_to_tree_and_back_under_traffic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy = parse_hierarchy("cluster:3x1")
    state = tmp_path / "state"
    federation = start(
        state,
        hierarchy.brokers,
        [(link.a, link.b) for link in hierarchy.links],
        peers=[(link.a, link.b) for link in hierarchy.peers],
        routing=CLUSTER,
    )
    try:
        asyncio.run(published_while_it_changes(federation, ["tree", "cluster", "tree"]))
        ran = make_roost(capsys, monkeypatch)("routing", "cluster", "--state", state, "--json")
        assert set(ran.json["routing"].values()) == {"cluster"}
        ran = make_roost(capsys, monkeypatch)("optimise", "grape", "on", "--state", state)
        assert ran.code == 2
        assert "grape knows trees only; expected none of it in a hierarchy" in ran.err
        with pytest.raises(AdminError, match="expected one of cluster, tree"):
            switch([federation.members[0].admin_url], "star")
    finally:
        end(state)


SETTINGS = """\
[broker]
name = "B1"
routing = "{routing}"
[links]
neighbours = {{ B0 = "10.0.0.1:7411", B2 = "" }}
{ranks}
"""


@pytest.mark.parametrize(
    ("routing", "ranks", "wrong"),
    [
        ("flooding", 'super = "B0"', "super: routing is flooding; expected it to be cluster"),
        ("cluster", 'super = "B7"', "super: B7 is no neighbour; expected one of neighbours"),
        ("cluster", 'peers = ["B9"]', "peers: B9 is no neighbour; expected one of neighbours"),
        (
            "cluster",
            'super = "B0"\npeers = ["B2"]',
            "there are peers, and B0 is above; expected peers at the top only",
        ),
        ("cluster", '[relocation]\nmode = "observing"', "[relocation] grape knows trees only"),
        ("tree", '[overlay]\nmode = "acting"', "[overlay] overlay knows trees only"),
        ("cluster", '[optimisers]\nmodules = { pop = "acting" }', "pop knows trees only"),
    ],
)
def test_ranks_that_make_no_hierarchy(tmp_path: Path, routing: str, ranks: str, wrong: str) -> None:
    file = tmp_path / "roost.toml"
    file.write_text(SETTINGS.format(routing=routing, ranks=ranks))
    with pytest.raises(UserError) as error:
        read_config(file)
    assert wrong in str(error.value)


def test_what_a_neighbour_is(tmp_path: Path) -> None:
    file = tmp_path / "roost.toml"
    file.write_text(SETTINGS.format(routing="cluster", ranks='super = "B0"'))
    links = read_config(file).links
    assert [links.rank(name) for name in ("B0", "B2")] == ["super", "sub"]
