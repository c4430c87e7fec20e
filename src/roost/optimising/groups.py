"""Clients of a broker that ask for the same: what is true of one is true of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# What a group asks for: the texts of its subscriptions, each once, in order.
Wanted = tuple[str, ...]


def groups_of(
    clients: Mapping[str, Mapping[str, object]], belongs: Callable[[str], bool]
) -> dict[Wanted, list[str]]:
    """The clients that ask for something and for which `belongs` is so, by what they ask for.

    >>> groups_of({"S1": {"x": "a > 1"}, "S2": {"y": "a > 1"}, "P": {}}, lambda client: True)
    {('a > 1',): ['S1', 'S2']}
    """
    groups: dict[Wanted, list[str]] = {}
    for client, subscriptions in clients.items():
        wanted = tuple(sorted({str(each) for each in subscriptions.values()}))
        if wanted and belongs(client):
            groups.setdefault(wanted, []).append(client)
    return groups


def called(members: Sequence[str], wanted: Wanted) -> str:
    """What a decision calls a group."""
    if len(members) == 1:
        return members[0]
    return f"{len(members)} subscribers to {' or '.join(wanted)}"
