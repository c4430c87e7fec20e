"""The brokers of a live federation, as plans are carried out on them: through their admin faces.

A client is where its session is attached. A link is there when both of its ends say so; while it is moved,
the brokers have a spare one (`standby`), which is none yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from roost.errors import UserError
from roost.pipeline.plans.applying import RefusedError
from roost.pipeline.plans.placement import Placement, in_order, placement_of
from roost.pipeline.plans.plan import Plan, Step
from roost.runtime.admin_client import NO_ACCESS, Access, AdminError, ask, ask_all

A_PAGE = 10_000
EVERYWHERE = ("0.0.0.0", "::", "")


class Brokers:
    """All brokers of a federation, by the addresses of their admin faces."""

    def __init__(self, urls: Sequence[str], access: Access = NO_ACCESS) -> None:
        self._urls = list(urls)
        self._access = access
        self._url: dict[str, str] = {}  # by broker
        self._address: dict[str, str] = {}

    def _statuses(self) -> dict[str, Mapping[str, Any]]:
        """What all of them say. UserError if one does not: a part would be taken for the whole."""
        found: dict[str, Mapping[str, Any]] = {}
        for url, answer in zip(
            self._urls, ask_all(self._urls, "/status", access=self._access), strict=True
        ):
            if isinstance(answer, AdminError):
                raise UserError(f"{answer}; expected all brokers of the federation to answer")
            name = str(answer["broker"])
            found[name] = answer
            self._url[name] = url
            host = str(answer["host"])
            if host in EVERYWHERE:
                host = urlsplit(url).hostname or host
            shown = f"[{host}]" if ":" in host else host
            self._address[name] = str(answer.get("address") or f"{shown}:{answer['port']}")
        return found

    def look(self, clients: Iterable[str]) -> Placement:
        statuses = self._statuses()
        links: dict[tuple[str, str], None] = {}
        for name, status in statuses.items():
            for other, link in status["links"].items():
                if other not in statuses:
                    raise UserError(
                        f"{name} has the neighbour {other}, which was not asked; expected the addresses of"
                        " all brokers"
                    )
                back = statuses[other]["links"].get(name)
                if back is not None and not link["standby"] and not back["standby"]:
                    links[in_order(name, other)] = None
        wanted = set(clients)
        where = self._where(wanted) if wanted else {}
        return placement_of(statuses, links, where)

    def _where(self, clients: set[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, url in self._url.items():
            path = f"/sessions?limit={A_PAGE}"
            while True:
                page = ask(url, path, access=self._access)
                for session in page["sessions"]:
                    if session["client"] in clients and session["attached"]:
                        found[session["client"]] = name
                if page["next"] is None:
                    break
                path = f"/sessions?limit={A_PAGE}&after={quote(page['next'], safe='')}"
        return found

    def redirect(self, client: str, source: str, target: str) -> None:
        order = {"client": client, "broker": self._address[target]}
        self._order(source, "/redirect", order)

    def rewire(self, middle: str, mover: str, anchor: str) -> None:
        self._order(middle, "/links/move", {"mover": mover, "anchor": anchor})

    def _order(self, broker: str, path: str, order: Mapping[str, object]) -> None:
        try:
            ask(self._url[broker], path, order, self._access)
        except AdminError as refused:
            raise RefusedError(str(refused)) from None

    # --- what comes of it -----------------------------------------------------------------------------

    def message_rate(self, seconds: float) -> float:
        """Messages a second between brokers, counted for so long."""
        began = time.monotonic()
        before = self._sent()
        time.sleep(seconds)
        after = self._sent()
        # A link that is new has begun at 0.
        more = sum(count - min(count, before.get(link, 0)) for link, count in after.items())
        return more / (time.monotonic() - began)

    def _sent(self) -> dict[tuple[str, str], int]:
        return {
            (name, other): int(link["sent"])
            for name, status in self._statuses().items()
            for other, link in status["links"].items()
        }

    def tell(self, plan: Plan, step: Step, *, undone: bool) -> None:
        """The record of a step, at the broker that was asked for it."""
        (decision,) = (each for each in plan.decisions if each.number == step.decision)
        taken = step.undone() if undone else step
        move = taken.kind == "move"
        self._record(
            taken.source if move else taken.middle,
            {
                "kind": "move" if move else "rewire",
                "subject": taken.client if move else f"{taken.middle} - {taken.mover}",
                "choice": taken.target if move else taken.anchor,
                "evidence": {"why": "undone" if undone else decision.why, "by": decision.by},
                "predicted": {}
                if undone
                else {"load_per_s": decision.after.load_per_s, "delay_s": decision.after.delay_s},
                "cause": f"plan {plan.id} {step.number}",
            },
        )

    def tell_outcome(
        self, plan: Plan, before: Mapping[str, float], measured: Mapping[str, float]
    ) -> None:
        """What was measured (load_per_s, delay_s), beside what was predicted; at the first broker by name."""
        first = min(self._url)
        self._record(
            first,
            {
                "kind": "outcome",
                "subject": f"plan {plan.id}",
                "choice": first,
                "evidence": {"measured": dict(measured), "before": dict(before)},
                "predicted": {
                    "load_per_s": plan.after.load_per_s,
                    "delay_s": plan.after.delay_s,
                },
                "cause": f"plan {plan.id} 0",
            },
        )

    def _record(self, broker: str, decision: Mapping[str, object]) -> None:
        ask(self._url[broker], "/decisions", decision, self._access)
