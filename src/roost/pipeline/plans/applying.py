"""Carrying a plan out, step by step, and taking it back.

A step is asked for, and seen to be so before the next one: a client is attached where it was sent to, a link
is where it was moved to. All of it goes through the journal (`journal`), so that it can be stopped at any
moment and gone on with, by whoever has the two files.

**Before anything is asked**, the federation is compared with what the plan was made for, and with what the
journal says was done since. What differs is named, and the plan refused: its predictions were for another
federation. Clients that come and go, and that the plan does not move, make no difference.

**A step that was asked for and not seen to be done** may have happened or not, and may still happen. It is
asked for again, which changes nothing if it was; also on the way back, where it is completed first and then
undone: so nothing is under way that nobody waits for.

A step that fails does not stop the others: a client may have left. Steps that depend on it fail as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from roost.errors import UserError
from roost.pipeline.plans.journal import Entry, Journal
from roost.pipeline.plans.placement import Placement, in_order, placement_of
from roost.pipeline.plans.plan import Plan, Step

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1
# A request may get lost, with a client that was just away.
ASK_AGAIN_S = 5.0
# Differences that are named.
NAMED_MAX = 8

Say = Callable[[str], None]
# A step that is done, or undone: for whoever keeps the record of it.
Tell = Callable[[Step, bool], None]


class RefusedError(UserError):
    """A broker has not done what it was asked for."""


class Federation(Protocol):
    """Brokers that can be looked at and asked."""

    def look(self, clients: Iterable[str]) -> Placement:
        """What there is, and where these clients are; those that are nowhere are missing."""

    def redirect(self, client: str, source: str, target: str) -> None:
        """Send a client to another broker. RefusedError says why not."""

    def rewire(self, middle: str, mover: str, anchor: str) -> None:
        """Move a link. RefusedError says why not."""


class Result(Struct, frozen=True):
    """What came of it."""

    done: int
    failed: int
    undone: int
    left: int  # still to do
    notes: tuple[str, ...] = ()


class Timing(NamedTuple):
    """How long a step may take."""

    patience_s: float = PATIENCE_S
    look_every_s: float = LOOK_EVERY_S


# --- what is expected -----------------------------------------------------------------------------------


def after(placement: Placement, steps: Iterable[Step]) -> Placement:
    """A placement, with these steps done."""
    clients, links = dict(placement.clients), list(placement.links)
    for step in steps:
        if step.kind == "move":
            clients[step.client] = step.target
        else:
            links.remove(in_order(step.middle, step.mover))
            links.append(in_order(step.mover, step.anchor))
    return placement_of(placement.brokers, links, clients)


def differences(expected: Placement, there: Placement, but: Sequence[Step] = ()) -> list[str]:
    """What is not as expected, in words; steps that are under way may have happened or not."""
    links = {in_order(s.middle, s.mover) for s in but if s.kind == "rewire"}
    links |= {in_order(s.mover, s.anchor) for s in but if s.kind == "rewire"}
    clients = {step.client for step in but if step.kind == "move"}
    found = [f"broker {b} is not there" for b in expected.brokers if b not in there.brokers]
    found += [f"broker {b} is new" for b in there.brokers if b not in expected.brokers]
    for link in expected.links:
        if link not in there.links and link not in links:
            found.append(f"the link {link[0]} - {link[1]} is not there")
    for link in there.links:
        if link not in expected.links and link not in links:
            found.append(f"the link {link[0]} - {link[1]} is new")
    for client, broker in expected.clients.items():
        now = there.clients.get(client)
        if now != broker and client not in clients:
            found.append(
                f"{client} is at {now}, and was at {broker}" if now else f"{client} is not there"
            )
    return found


def _done(plan: Plan, entries: Mapping[int, Entry]) -> tuple[list[Step], list[Step]]:
    """The steps that are in place, and those that may be."""
    in_place, perhaps = [], []
    for step in plan.steps:
        entry = entries[step.number]
        if entry.state in ("asked", "failed"):
            perhaps.append(step)
        if entry.state == "done" or (entry.state in ("asked", "failed") and entry.undo):
            in_place.append(step)
    return in_place, perhaps


def check(plan: Plan, journal: Journal, federation: Federation) -> None:
    """UserError if the federation is not the one that the plan and its journal speak of."""
    in_place, perhaps = _done(plan, journal.entries)
    there = federation.look(plan.placement.clients)
    found = differences(after(plan.placement, in_place), there, perhaps)
    if found:
        shown = "\n  ".join(found[:NAMED_MAX])
        more = f"\n  and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
        raise UserError(
            f"the federation has changed since plan {plan.id} was made"
            f"{', or since it was carried out' if in_place or perhaps else ''}:\n  {shown}{more}\n"
            "expected it as it was; make a new plan"
        )


# --- carrying out ---------------------------------------------------------------------------------------


def apply(
    plan: Plan,
    journal: Journal,
    federation: Federation,
    say: Say = lambda _: None,
    tell: Tell = lambda _, undo: None,  # noqa: ARG005
    timing: Timing = Timing(),  # noqa: B008 (a tuple)
) -> Result:
    """All steps that are not done yet, in their order."""
    begun_back = [e.step for e in journal.entries.values() if e.undo]
    if begun_back:
        raise UserError(
            f"plan {plan.id} is being undone, or was: step {begun_back[0]}; expected `roost undo` to end"
            " that, and a new plan"
        )
    check(plan, journal, federation)
    runner = _Runner(federation, journal, say, tell, timing)
    for step in plan.steps:
        if journal.of(step.number).state in ("proposed", "asked", "failed"):
            runner.carry_out(step, undo=False)
    return _result(journal)


def undo(
    plan: Plan,
    journal: Journal,
    federation: Federation,
    say: Say = lambda _: None,
    tell: Tell = lambda _, undo: None,  # noqa: ARG005
    timing: Timing = Timing(),  # noqa: B008 (a tuple)
) -> Result:
    """All steps that were done, taken back in the opposite order."""
    check(plan, journal, federation)
    runner = _Runner(federation, journal, say, tell, timing)
    for step in reversed(plan.steps):
        entry = journal.of(step.number)
        if entry.state == "asked" and not entry.undo:
            runner.carry_out(step, undo=False)
            entry = journal.of(step.number)
        late = entry.state == "failed" and not entry.undo
        if entry.state == "proposed" or (late and not runner.is_so(step)):
            journal.add(step.number, "undone", undo=True, note="it was not done")
        elif entry.state != "undone":
            runner.carry_out(step, undo=True)
    return _result(journal)


def _result(journal: Journal) -> Result:
    states = [entry.state for entry in journal.entries.values()]
    notes = [
        f"step {entry.step}: {entry.note}"
        for entry in journal.entries.values()
        if entry.state == "failed"
    ]
    return Result(
        states.count("done"),
        states.count("failed"),
        states.count("undone"),
        states.count("proposed") + states.count("asked"),
        tuple(notes),
    )


class _Runner:
    def __init__(
        self, federation: Federation, journal: Journal, say: Say, tell: Tell, timing: Timing
    ) -> None:
        self._federation = federation
        self._journal = journal
        self._say = say
        self._tell = tell
        self._timing = timing

    def carry_out(self, step: Step, *, undo: bool) -> None:
        """A step, or the way back of it."""
        wanted = step.undone() if undo else step
        self._journal.add(step.number, "asked", undo=undo)
        self._say(wanted.text)
        problem = self._ask(wanted)
        if problem:
            self._journal.add(step.number, "failed", undo=undo, note=problem)
            self._say(f"  it was not done: {problem}")
        else:
            self._tell(step, undo)
            self._journal.add(step.number, "undone" if undo else "done", undo=undo)

    def is_so(self, step: Step) -> bool:
        """Whether it has happened, whatever was noted."""
        return _state(step, self._federation.look([step.client] if step.client else [])) == "so"

    def _ask(self, step: Step) -> str:
        """Until it is so; or why it is not."""
        deadline = time.monotonic() + self._timing.patience_s
        problem = ""
        ask_at = 0.0
        while True:
            state = _state(step, self._federation.look([step.client] if step.client else []))
            if state == "so":
                return ""
            if state == "open" and time.monotonic() >= ask_at:
                try:
                    self._order(step)
                    ask_at, problem = time.monotonic() + ASK_AGAIN_S, ""
                except RefusedError as refused:
                    problem = str(refused)  # for the moment, perhaps
            elif state not in ("open", "under way"):
                return state
            if time.monotonic() >= deadline:
                what = problem or "it was asked for, and is not so"
                return f"after {self._timing.patience_s:g} s: {what}"
            time.sleep(self._timing.look_every_s)

    def _order(self, step: Step) -> None:
        if step.kind == "move":
            self._federation.redirect(step.client, step.source, step.target)
        else:
            self._federation.rewire(step.middle, step.mover, step.anchor)


def _state(step: Step, there: Placement) -> Literal["so", "open", "under way"] | str:
    """Whether a step has happened, or can; anything else is why it can't."""
    if step.kind == "move":
        at = there.clients.get(step.client)
        if at is None:
            return "under way"  # or gone: in time it is known
        if at == step.target:
            return "so"
        return "open" if at == step.source else f"{step.client} is at {at}, not at {step.source}"
    old, new = in_order(step.middle, step.mover), in_order(step.mover, step.anchor)
    if new in there.links and old not in there.links:
        return "so"
    if old not in there.links or new in there.links:
        return "under way"
    if in_order(step.middle, step.anchor) not in there.links:
        return f"{step.middle} and {step.anchor} are no neighbours"
    return "open"
