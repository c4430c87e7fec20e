"""A federation of `roost up` gets a broker more, or one less, while it runs.

**Joining.** The new one is a process like the others, with its own settings, and dials one of them, which is
told to expect it. From then on it is one of the federation, in its folder too.

**Leaving.** A broker in the middle must not part those around it. So its neighbours become neighbours of one
of them (`broker.rewiring`), which loses nothing; its clients are sent there; and when nothing is left that
waits in it, its last link ends, and so does the process. What can't be sent elsewhere keeps it: a durable
session waits for its client where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from roost.errors import UserError
from roost.runtime import federation as folder
from roost.runtime import processes
from roost.runtime.admin_client import NO_ACCESS, Access, AdminError, ask

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1

Say = Callable[[str], None]


def join(state: Path, name: str, *neighbours: str) -> folder.Member:
    """Start one more, like the last of its neighbours; when it is linked with all, return."""
    with folder.locked(state):
        there = folder.running_federation(state)
        known = {member.name: member for member in there.members}
        if name in known:
            raise UserError(f"there is a broker {name!r} already; expected another name")
        for neighbour in neighbours:
            if neighbour not in known:
                raise UserError(f"there is no broker {neighbour!r}; expected {' or '.join(known)}")
        new = folder.planned_member(name, len(there.members))
        links = tuple((neighbour, name) for neighbour in neighbours)
        there = msgspec.structs.replace(
            there, members=(*there.members, new), links=(*there.links, *links)
        )
        folder.write_config(state, there, new, like=known[neighbours[-1]])
        told: list[str] = []
        try:
            for neighbour in neighbours:
                ask(known[neighbour].admin_url, "/links/add", {"broker": name})
                told.append(neighbour)
            return folder.start_member(state, there, new)
        except BaseException:
            for neighbour in told:
                ask(known[neighbour].admin_url, "/links/remove", {"broker": name})
            raise


def leave(state: Path, name: str, say: Say) -> None:
    """Take a broker out, in order, and end its process."""
    with folder.locked(state):
        there = folder.running_federation(state)
        known = {member.name: member for member in there.members}
        if name not in known:
            raise UserError(f"there is no broker {name!r}; expected {' or '.join(known)}")
        leaving = known[name]
        if len(known) > 1:
            empty(leaving.admin_url, {n: m.admin_url for n, m in known.items()}, say)
        _gone(state, there, leaving)
        say(f"{name} has left")


def _gone(state: Path, there: folder.Federation, leaving: folder.Member) -> None:
    """Nobody needs it any more: its process ends, and the folder knows it no longer."""
    assert leaving.process is not None
    processes.end([leaving.process], folder.END_S)
    members = tuple(member for member in there.members if member.name != leaving.name)
    links = tuple(link for link in there.links if leaving.name not in link)
    folder.write_record(state, msgspec.structs.replace(there, members=members, links=links))


def unlink(state: Path, name: str) -> None:
    """End the process of one that none of its neighbours needs any more; they are told."""
    with folder.locked(state):
        there = folder.running_federation(state)
        (leaving,) = (member for member in there.members if member.name == name)
        running = [member for member in there.running() if member.name != name]
        linked = {n for link in there.links if name in link for n in link}
        for other in running:
            if other.name in linked:
                left = partial(link_left, other.admin_url, name, NO_ACCESS)
                wait(left, f"{name} is still a neighbour of {other.name}")
        _gone(state, there, leaving)


def empty(url: str, urls: Mapping[str, str], say: Say, access: Access = NO_ACCESS) -> None:
    """Without neighbours, and without clients: nobody misses it any more."""
    status = ask(url, "/status", access=access)
    name = status["broker"]
    first, *others = (n for n, link in status["links"].items() if not link["standby"])
    for other in others:
        say(f"{other} becomes a neighbour of {first}")
        move(url, other, first, access)
    say(f"clients of {name} go to {first}")
    wait(lambda: clients_left(url, first, access), f"clients are still at {name}")
    # The neighbour first: for one that is away everything would be kept.
    wait(lambda: link_left(urls[first], name, access), f"{name} is still a neighbour of {first}")
    wait(lambda: link_left(url, first, access), f"{first} is still a neighbour of {name}")


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
