"""A broker of `roost up` is ended and started again, with all that it was.

It keeps its ports, its settings, its store and its log. **Its links** may be others than its settings say:
they were moved, made or ended since. A store remembers that; without one its neighbours do, so they are
asked, and the settings are written anew. Neighbours that are not running are not waited for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from roost.errors import UserError
from roost.runtime import federation as folder
from roost.runtime import processes
from roost.runtime.admin_client import AdminError, ask_all
from roost.runtime.broker_process import write_settings
from roost.runtime.processes import Ending

REMARK = "Written by `roost restart`, with the links that it had last."


def restart(state: Path, name: str) -> tuple[folder.Member, Ending]:
    """End it in order, start it, and return when it is linked with all neighbours that run; how it ended."""
    folder.running_federation(state)  # or it says that there is none
    with folder.locked(state):
        there = folder.running_federation(state)
        known = {member.name: member for member in there.members}
        if name not in known:
            raise UserError(f"there is no broker {name!r}; expected {' or '.join(known)}")
        member = known[name]
        running = [other for other in there.running() if other.name != name]
        if not there.durable:
            follow_links(state / member.config, links_of(member, running))
        ending: Ending = "gone"
        if member.process is not None:
            (ending,) = processes.end([member.process], folder.END_S)
        return folder.start_again(state, there, member, {other.name for other in running}), ending


def links_of(member: folder.Member, others: list[folder.Member]) -> dict[str, str | None]:
    """What each that answers says: where it is dialled, "" if it dials itself, None if it is no neighbour."""
    found: dict[str, str | None] = {}
    answers = ask_all([other.admin_url for other in others], "/status")
    for other, answer in zip(others, answers, strict=True):
        if not isinstance(answer, AdminError):
            link = answer["links"].get(member.name)
            dialled = None if link is None else "" if link["dials"] else other.address
            found[other.name] = dialled
    return found


def follow_links(config: Path, said: Mapping[str, str | None]) -> None:
    """Have the settings say what the others do; of those that say nothing, all stays as it is there."""
    tables = tomllib.loads(config.read_text("utf-8"))
    before = tables.get("links", {}).get("neighbours", {})
    wanted = {name: at for name, at in before.items() if name not in said}
    wanted |= {name: at for name, at in said.items() if at is not None}
    if wanted != before:
        tables.setdefault("links", {})["neighbours"] = wanted
        write_settings(config, tables, REMARK)
