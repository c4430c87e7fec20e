"""What if: a recorded run with something different, said in a few words.

| words | what is different |
| --- | --- |
| `double the rate of P7` | each event of P7 is followed by another like it, half-way to the next |
| `multiply the rate of P7 by 3` | by two others; `of everybody` for all publishers |
| `lose B5` | it is not there: its clients are at its first neighbour, its other neighbours linked to that |
| `add B9 to B2` | a broker like B2, linked to it; every second subscriber of B2 is there |
| `move S1 to B2` | a client is elsewhere |
| `link B2 to B0 instead of B1` | a link is elsewhere |
| `slow B3 by 4` | its processor takes four times as long |

Several are joined by `and`: what stands first is done first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from roost.errors import UserError
from roost.pipeline.plans.placement import in_order
from roost.pipeline.plans.plan import Step
from roost.pipeline.plans.scene import Published, Scene, placed

RATE_MAX = 100
EXAMPLES = "`double the rate of P7`, `lose B5`, `add B9 to B2`, `move S1 to B2`"


def what_if(scene: Scene, words: str) -> Scene:
    """The scene, changed. UserError says what is not understood, or not there."""
    for part in re.split(r"\s+and\s+", words.strip()):
        scene = _changed(scene, part)
    return scene


def _changed(scene: Scene, words: str) -> Scene:
    for pattern, change in FORMS.items():
        if found := re.fullmatch(pattern, words):
            return change(scene, found.groupdict())
    raise UserError(f"what if {words!r}? expected such as {EXAMPLES}")


def _rate(scene: Scene, said: Mapping[str, str]) -> Scene:
    times = 2 if "times" not in said else int(said["times"])
    if not 1 <= times <= RATE_MAX:
        raise UserError(f"a rate times {times}; expected 1 to {RATE_MAX}")
    who = said["who"]
    whose = scene.publishers if who == "everybody" else [_there(scene, who, scene.publishers)]
    events: list[Published] = []
    for publisher in scene.publishers:
        own = [event for event in scene.events if event.publisher == publisher]
        for event, following in zip(own, [*own[1:], None], strict=True):
            events.append(event)
            if publisher in whose:
                gap = (following.at - event.at if following is not None else 0.0) / times
                events += (event._replace(at=event.at + gap * n) for n in range(1, times))
    return replace(scene, events=tuple(sorted(events, key=lambda event: event.at)))


def _lose(scene: Scene, said: Mapping[str, str]) -> Scene:
    lost = _there(scene, said["broker"], scene.brokers)
    near = [b if a == lost else a for a, b, _ in scene.links if lost in (a, b)]
    if not near:
        raise UserError(f"lose {lost}: it has no neighbour whom its clients could go to")
    heir, *others = near
    latency = {in_order(a, b): ms for a, b, ms in scene.links}
    kept = [link for link in scene.links if lost not in link[:2]]
    # The way was over the one that is lost, and is as long.
    kept += [
        (other, heir, latency[in_order(other, lost)] + latency[in_order(lost, heir)])
        for other in others
    ]
    return replace(
        scene,
        brokers={name: machine for name, machine in scene.brokers.items() if name != lost},
        links=tuple(kept),
        clients={c: heir if broker == lost else broker for c, broker in scene.clients.items()},
    )


def _add(scene: Scene, said: Mapping[str, str]) -> Scene:
    new, beside = said["broker"], _there(scene, said["beside"], scene.brokers)
    if new in scene.brokers or new in scene.clients:
        raise UserError(f"add {new}: there is one of that name; expected another name")
    publishers = set(scene.publishers)
    movable = [c for c, b in sorted(scene.clients.items()) if b == beside and c not in publishers]
    return placed(
        replace(scene, brokers={**scene.brokers, new: scene.brokers[beside]}),
        [*((a, b) for a, b, _ in scene.links), (beside, new)],
        dict.fromkeys(movable[1::2], new),
    )


def _move(scene: Scene, said: Mapping[str, str]) -> Scene:
    client = _there(scene, said["client"], scene.clients)
    broker = _there(scene, said["broker"], scene.brokers)
    return with_step(scene, Step(1, "move", 1, client, scene.clients[client], broker))


def _link(scene: Scene, said: Mapping[str, str]) -> Scene:
    mover, anchor, middle = (
        _there(scene, said[name], scene.brokers) for name in ("mover", "anchor", "middle")
    )
    links = {in_order(a, b) for a, b, _ in scene.links}
    for other in (mover, anchor):
        if in_order(middle, other) not in links:
            raise UserError(f"{other} is no neighbour of {middle}; expected one that is")
    return with_step(scene, Step(1, "rewire", 1, middle=middle, mover=mover, anchor=anchor))


def _slow(scene: Scene, said: Mapping[str, str]) -> Scene:
    broker = _there(scene, said["broker"], scene.brokers)
    factor = float(said["factor"])
    if not factor > 0:
        raise UserError(f"slow {broker} by {factor:g}; expected more than 0")
    machine = scene.brokers[broker]
    slower = machine._replace(cpu_mhz=machine.cpu_mhz / factor)
    return replace(scene, brokers={**scene.brokers, broker: slower})


def _there(scene: Scene, name: str, among: object) -> str:
    known = list(among)  # type: ignore[call-overload]
    if name not in known:
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise UserError(f"{scene.name}: there is no {name}; expected one of {shown}")
    return name


def with_step(scene: Scene, step: Step) -> Scene:
    """A step of a plan, done."""
    if step.kind == "move":
        links = [(a, b) for a, b, _ in scene.links]
        return placed(scene, links, {step.client: step.target})
    old = in_order(step.middle, step.mover)
    links = [(a, b) for a, b, _ in scene.links if in_order(a, b) != old]
    return placed(scene, [*links, (step.anchor, step.mover)], {})


_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
FORMS: dict[str, Callable[[Scene, Mapping[str, str]], Scene]] = {
    r"double the rate of (?P<who>\S+)": _rate,
    r"multiply the rate of (?P<who>\S+) by (?P<times>[0-9]{1,4})": _rate,
    r"lose (?P<broker>\S+)": _lose,
    r"add (?P<broker>[A-Za-z0-9_.-]{1,64}) to (?P<beside>\S+)": _add,
    r"move (?P<client>\S+) to (?P<broker>\S+)": _move,
    r"link (?P<mover>\S+) to (?P<anchor>\S+) instead of (?P<middle>\S+)": _link,
    rf"slow (?P<broker>\S+) by (?P<factor>{_NUMBER})": _slow,
}
