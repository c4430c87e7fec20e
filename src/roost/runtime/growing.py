"""A federation of `roost up` gets a broker more, or one less, while it runs.

**Joining.** The new one is a process like the others, with its own settings, and dials one of them, which is
told to expect it. From then on it is one of the federation, in its folder too. Where its neighbour has a
standby, it has one, too.

**Leaving.** A broker in the middle must not part those around it. So its neighbours become neighbours of one
of them, the largest with room for all (`overlay.placement`), which loses nothing (`broker.rewiring`); its
clients are sent there; and when nothing is left that waits in it, its last link ends, and so does the
process. What can't be sent elsewhere keeps it: a durable session waits for its client where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from roost.errors import UserError
from roost.overlay.placement import FANOUT_MAX, heir_of
from roost.runtime import federation as folder
from roost.runtime.admin_client import NO_ACCESS, Access, AdminError, ask, ask_all

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1

Say = Callable[[str], None]


def join(state: Path, name: str, *neighbours: str) -> folder.Member:
    """Start one more, like the last of its neighbours; when it is linked with all, return."""
    with folder.locked(state):
        there = folder.running_federation(state)
        known = _known(there)
        if name in known:
            raise UserError(f"there is a broker {name!r} already; expected another name")
        for neighbour in neighbours:
            if neighbour not in known:
                raise UserError(f"there is no broker {neighbour!r}; expected {' or '.join(known)}")
        like = known[neighbours[-1]]
        new = folder.planned_nodes(name, len(there.members), standby=bool(like.beside))
        links = tuple((neighbour, name) for neighbour in neighbours)
        there = msgspec.structs.replace(
            there, members=(*there.members, *new), links=(*there.links, *links)
        )
        for node in new:
            folder.write_config(state, there, node, like=like)
        told: list[str] = []
        try:
            for neighbour in neighbours:
                ask(_speaks(there, neighbour), "/links/add", {"broker": name})
                told.append(neighbour)
            return folder.start_nodes(state, there, name)
        except BaseException:
            for neighbour in told:
                ask(_speaks(there, neighbour), "/links/remove", {"broker": name})
            raise


def _known(there: folder.Federation) -> dict[str, folder.Member]:
    """All brokers by their names; of two nodes of one, the first."""
    return {member.name: member for member in there.members if not member.standby_of}


def _speaks(there: folder.Federation, broker: str) -> str:
    """Where to ask a broker: at the one of its nodes that is it just now."""
    first, *others = urls = [node.admin_url for node in folder.nodes_of(there, broker)]
    if not others:
        return first
    for url, answer in zip(urls, ask_all(urls, "/status"), strict=True):
        if not isinstance(answer, AdminError) and answer["standby"]["role"] == "leader":
            return url
    raise UserError(f"neither node of {broker} is the broker just now; `roost status` says why")


def leave(state: Path, name: str, say: Say) -> None:
    """Take a broker out, in order, and end its process."""
    with folder.locked(state):
        there = folder.running_federation(state)
        known = _known(there)
        if name not in known:
            raise UserError(f"there is no broker {name!r}; expected {' or '.join(known)}")
        if len(known) > 1:
            empty(_speaks(there, name), {other: _speaks(there, other) for other in known}, say)
        folder.end_nodes(state, there, name)
        say(f"{name} has left")


def unlink(state: Path, name: str) -> None:
    """End the process of one that none of its neighbours needs any more; they are told."""
    with folder.locked(state):
        there = folder.running_federation(state)
        running = [member for member in there.running() if member.name != name]
        linked = {n for link in there.links if name in link for n in link}
        for other in running:
            if other.name in linked:
                left = partial(link_left, other.admin_url, name, NO_ACCESS)
                wait(left, f"{name} is still a neighbour of {other.name}")
        folder.end_nodes(state, there, name)


def empty(url: str, urls: Mapping[str, str], say: Say, access: Access = NO_ACCESS) -> None:
    """Without neighbours, and without clients: nobody misses it any more."""
    status = ask(url, "/status", access=access)
    name = status["broker"]
    near = _neighbours(status)
    there = {other: ask(urls[other], "/status", access=access) for other in near}
    sizes = {other: len(_neighbours(seen)) for other, seen in there.items()}
    first = heir_of(sizes, FANOUT_MAX)
    for other in near:
        if other != first:
            say(f"{other} becomes a neighbour of {first}")
            move(url, other, first, access)
    say(f"clients of {name} go to {first}")
    wait(lambda: clients_left(url, first, access), f"clients are still at {name}")
    # The neighbour first: for one that is away everything would be kept.
    wait(lambda: link_left(urls[first], name, access), f"{name} is still a neighbour of {first}")
    wait(lambda: link_left(url, first, access), f"{first} is still a neighbour of {name}")


def _neighbours(status: Mapping[str, Any]) -> list[str]:
    return [name for name, link in status["links"].items() if not link["standby"]]


def move(url: str, mover: str, anchor: str, access: Access = NO_ACCESS) -> None:
    """Have a broker's neighbour become one of another neighbour; return when it is."""
    asked: dict[str, str] = {}

    def left() -> str:
        links = ask(url, "/status", access=access)["links"]
        if mover not in links:
            return ""
        if not any(link["standby"] for link in links.values()):
            try:
                ask(url, "/links/move", {"mover": mover, "anchor": anchor}, access)
            except AdminError as error:  # for the moment, perhaps
                asked["objection"] = str(error)
        return asked.get("objection") or f"{mover} is still a neighbour"

    wait(left, f"{mover} has not become a neighbour of {anchor}")


def switch(urls: Sequence[str], way: str, access: Access = NO_ACCESS) -> None:
    """Have brokers of a hierarchy go another way; return when they do, and know what they have to for that.

    Each can change by itself: one that does not answer holds up nothing but this command.
    """
    for url in urls:
        ask(url, "/links/way", {"way": way}, access)

    def left() -> str:
        for url in urls:
            status = ask(url, "/status", access=access)
            if status["routing"] != way or (way == "tree" and not status["complete"]):
                return f"{status['broker']} has not been told everything yet"
        return ""

    wait(left, f"not all brokers go the way of the {way}")


def clients_left(url: str, to: str, access: Access) -> str:
    """Who is still there; each is told to go."""
    sessions = ask(url, "/sessions?limit=10000", access=access)["sessions"]
    durable = [session for session in sessions if session["durable"]]
    if durable:
        raise UserError(
            f"{durable[0]['client']} has a durable session there, which waits for it where it is; end it"
            f" first with `roost sessions end {durable[0]['session']}`"
        )
    for client in dict.fromkeys(session["client"] for session in sessions):
        with suppress(AdminError):  # it may have gone meanwhile
            ask(url, "/redirect", {"client": client, "broker": to}, access)
    return f"{len(sessions)} of them" if sessions else ""


def link_left(url: str, neighbour: str, access: Access) -> str:
    """Why a link can't be ended yet; it is, if nothing waits for the neighbour."""
    try:
        ask(url, "/links/remove", {"broker": neighbour}, access)
    except AdminError as error:
        return str(error)
    return ""


def wait(left: Callable[[], str], problem: str) -> None:
    """Until there is nothing left; UserError says what is, if that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while still := left():
        if time.monotonic() > deadline:
            raise UserError(f"after {PATIENCE_S:.0f} s, {problem}: {still}")
        time.sleep(LOOK_EVERY_S)
