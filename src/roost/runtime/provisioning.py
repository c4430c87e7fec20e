"""Processes for a partitioned service, as its dispatchers wish for them (004 section IV.E).

The live driver of `partition.provisioning`, for a service of `roost serve`: once a second it reads the status
of all servers, and starts a matcher, has one leave, or ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from roost.errors import UserError
from roost.partition.provisioning import Bounds, Provisioner, Step
from roost.runtime import federation as folder
from roost.runtime import growing
from roost.runtime.admin_client import AdminError, ask, ask_all

LOOK_S = 1.0

Say = Callable[[str], None]


def provide(state: Path, bounds: Bounds, say: Say) -> None:
    """Until the service is ended, or we are."""
    provisioner = Provisioner(bounds)
    while folder.read(state) is not None:
        step = provisioner.look(wishes(state), time.monotonic())
        if step is not None:
            say(f"{step.what} {step.matcher}: {step.why}")
            try:
                carry_out(state, step)
            except UserError as error:  # who has not started does not join, and is given up
                say(f"  {error}")
        time.sleep(LOOK_S)


def wishes(state: Path) -> dict[str, dict[str, object]]:
    """What the dispatchers that answer say of themselves."""
    there = folder.running_federation(state).running()
    answers = ask_all([member.admin_url for member in there], "/status")
    found = {
        member.name: answer
        for member, answer in zip(there, answers, strict=True)
        if not isinstance(answer, AdminError) and "wish" in answer
    }
    spaces = sorted({str(figures["space"]) for figures in found.values()})
    if len(spaces) > 1:
        raise UserError(
            f"a service with the spaces {', '.join(spaces)}; expected one: nobody knows whose matcher is"
            " wished for"
        )
    return found


def carry_out(state: Path, step: Step) -> None:
    """The process of a matcher that starts is linked with all others, and is like the last of them."""
    name, there = step.matcher, folder.running_federation(state)
    running = {member.name: member for member in there.running()}
    if step.what == "start":
        growing.join(state, name, *running)
    elif step.what == "leave" and name in running:  # else it has left already, in its way
        ask(running[name].admin_url, "/ask", {"request": "leave"})
    elif step.what == "end" and any(member.name == name for member in there.members):
        growing.unlink(state, name)
