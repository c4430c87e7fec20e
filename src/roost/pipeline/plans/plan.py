"""A plan: what is to move where, why, what is predicted of it, and for which placement it was made.

It is a file of JSON. Its *id* is the digest of all that it says, so that a plan that was edited is none; the
*digest* is that of the placement it was made for: the overlay, and where the clients are that it moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from roost.errors import UserError
from roost.pipeline.plans.effect import Effect, Weights
from roost.pipeline.plans.placement import Placement

VERSION = 1
FORMAT = "roost plan"
ID_LENGTH = 16


class Step(Struct, frozen=True, omit_defaults=True):
    """One thing that is asked of a broker: a client moves, or a link."""

    number: int
    kind: Literal["move", "rewire"]
    decision: int  # the number of what it follows from
    client: str = ""
    source: str = ""
    target: str = ""
    middle: str = ""
    mover: str = ""
    anchor: str = ""

    @property
    def text(self) -> str:
        """In words."""
        if self.kind == "move":
            return f"{self.client} moves from {self.source} to {self.target}"
        return f"{self.mover} is linked to {self.anchor} instead of {self.middle}"

    def undone(self) -> Step:
        """The way back."""
        if self.kind == "move":
            return replace(self, source=self.target, target=self.source)
        return replace(self, middle=self.anchor, anchor=self.middle)


class Decision(Struct, frozen=True):
    """What was chosen, and what came of all that was chosen up to it."""

    number: int
    by: str
    wish: str
    why: str
    gain: float  # of the weighted sum, as the optimiser promised it: 0.1 is a tenth of what it was
    evidence: Mapping[str, Any]
    before: Effect
    after: Effect


class Wish(Struct, frozen=True):
    """What an optimiser wanted, and did not get."""

    by: str
    wish: str
    gain: float
    why: str


class Conflict(Struct, frozen=True):
    """Who wanted what, and what was chosen."""

    chosen: str
    by: str
    gain: float
    others: tuple[Wish, ...]


class Alone(Struct, frozen=True):
    """What would come of one optimiser alone, or of all together."""

    who: str
    effect: Effect
    cost: float  # the weighted sum; 1 is as it was
    steps: int


class Limits(Struct, frozen=True):
    """What the operator has said."""

    excluded: tuple[str, ...] = ()
    pinned: tuple[tuple[str, str], ...] = ()
    kept: tuple[str, ...] = ()
    moves: int | None = None
    degree_max: int | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """All of it."""

    format: str = FORMAT
    version: int = VERSION
    id: str = ""
    run: str
    seconds: float  # of traffic that it was made from
    goals: Weights
    limits: Limits
    placement: Placement  # of clients, those that move
    digest: str
    before: Effect
    measured: Effect | None  # of the same, as far as it was measured
    after: Effect
    steps: tuple[Step, ...]
    decisions: tuple[Decision, ...]
    conflicts: tuple[Conflict, ...] = ()
    refused: tuple[Wish, ...] = ()
    alone: tuple[Alone, ...] = ()
    notes: tuple[str, ...] = ()

    def sealed(self) -> Plan:
        """With its id."""
        return replace(self, id=_id_of(self))

    @property
    def cost(self) -> float:
        """The weighted sum, of what it was."""
        return self.goals.cost(self.after, self.before)


def _id_of(plan: Plan) -> str:
    said = msgspec.json.encode(replace(plan, id=""), order="deterministic")
    return sha256(said).hexdigest()[:ID_LENGTH]


def plan_bytes(plan: Plan) -> bytes:
    """The file."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def read_plan(path: Path) -> Plan:
    """The plan of a file. UserError says what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror or bad}; expected a plan of `roost plan`") from None
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as bad:
        raise UserError(f"{path}: no plan: {bad}; expected a file of `roost plan --out`") from None
    if head.get("format") != FORMAT:
        raise UserError(f"{path}: no plan; expected a file of `roost plan --out`")
    if head.get("version") != VERSION:
        raise UserError(
            f"{path}: a plan of version {head.get('version')!r}; expected {VERSION}: make it anew with this"
            " version of Roost"
        )
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.DecodeError as bad:
        raise UserError(f"{path}: no plan: {bad}; expected a file of `roost plan --out`") from None
    if plan.id != _id_of(plan):
        raise UserError(
            f"{path}: the plan was changed after it was made: it says {plan.id!r}, and is {_id_of(plan)!r};"
            " expected it as `roost plan` has written it"
        )
    return plan
