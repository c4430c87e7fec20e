"""Somebody who watches a broker for its operators: writes the log, and knows whether it is well.

What happens is told (`Report` by the machine, the other methods by the server); what lasts is looked at twice
a second and when somebody asks, so that `/health` can say since when.

    troubles   keep the broker from its work, and waiting for others will not mend them: the store can't be
               written, the users file does not read, a trace or a task has come to an end, a neighbour
               goes on refusing us. `/health` is 503.
    warnings   an operator should know: what is open to others (`exposure`), a link that is down, a store that
               is full. The broker does all it can, and whoever balances a load by `/health` would make it
               worse by taking it away: clients of a full store have to come and fetch what is theirs, and a
               broker is no worse for a neighbour that is down. `/health` is 200.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roost.broker.commands import Record, Report
from roost.runtime.exposure import exposures
from roost.runtime.log import EventLog, calls_of, iso

if TYPE_CHECKING:
    from roost.runtime.server import BrokerServer

# A neighbour that starts again is back by then.
LINK_PATIENCE_S = 30.0
UP, DOWN, REFUSED = "link up", "link down", "link refused"


class Finding(NamedTuple):
    """Something that lasts, and since when."""

    what: str
    detail: str
    since: float  # in seconds since the epoch

    def as_dict(self) -> dict[str, str]:
        return {"what": self.what, "detail": self.detail, "since": iso(self.since)}


class _Line:
    """A link as we have seen it last."""

    __slots__ = ("reason", "refused_since", "since", "up")

    def __init__(self, now: float) -> None:
        self.up = False
        self.since = now
        self.reason = ""  # why it is not up, as far as we know
        self.refused_since: float | None = None  # the neighbour answers, and does not want us


class Watch:
    """Of one broker."""

    def __init__(self, server: BrokerServer, log: EventLog, config_file: Path | None) -> None:
        self.log = log
        self._server = server
        self._config_file = config_file
        self._began = time.time()
        self._lines: dict[str, _Line] = {}
        self._troubles: dict[str, Finding] = {}
        self._full_since: float | None = None
        self._standby_since: float | None = None

    # --- what happens -------------------------------------------------------------------------------

    def restored(self, records: int) -> None:
        """The machine has taken up what the store had."""
        if not records:
            return
        machine = self._server.shell.machine
        peers = [*machine.sessions.values(), *machine.links.values()]
        lanes = [lane for peer in peers for lane in (peer.channel.control, peer.channel.data)]
        self.log.info(
            "restored",
            records=records,
            sessions=len(machine.sessions),
            links=len(machine.links),
            messages=sum(lane.sent - lane.acked for lane in lanes),
        )

    def started(self) -> None:
        server = self._server
        admin = server.admin
        self.log.info(
            "started",
            address=f"{server.host}:{server.port}",
            advertised=server.shell.machine.identity.address,
            admin=f"{admin.host}:{admin.port}" if admin is not None else "",
            store=server.config.broker.data,
            boots=server.shell.machine.identity.boots or "",
            incarnation=server.shell.machine.identity.incarnation,
        )
        for what, detail in exposures(server.config, self._config_file):
            self.log.warning(what, detail=detail)

    def stopping(self) -> None:
        self.log.info("stopping", attached=self._server.shell.status()["attached"])

    def stopped(self) -> None:
        """The last line."""
        self.log.info("stopped", after_s=time.time() - self._began)
        self.log.close()

    def report(self, report: Report) -> None:
        """The machine has something to say."""
        if report.what == REFUSED:
            self.turned_away(report.about, report.detail)
            return
        fields: dict[str, object] = {"about": report.about, "detail": report.detail}
        if report.what in (UP, DOWN):
            line = self._line(report.about)
            if line.up is (report.what == UP):
                return
            fields["after_s"] = self._changed(line, report.what == UP, report.detail)
        self.log.add(report.level, report.what, fields)

    def decided(self, record: Record) -> None:
        """An optimiser has decided."""
        decision = record.decision
        self.log.add(
            "info" if decision.kind == "move" else "debug",
            "decision",
            {
                "module": decision.module,
                "kind": decision.kind,
                "subject": decision.subject,
                "choice": decision.choice,
                "acted": decision.acted,
                "cause": decision.cause,
            },
        )

    def task_failed(self, what: str, error: BaseException) -> None:
        """Something in the background has failed that should not have."""
        self.log.error("task failed", about=what, detail=repr(error), calls=calls_of(error))

    def turned_away(self, neighbour: str, reason: str) -> None:
        """A neighbour that we dialled does not want us. Said once, however often we try."""
        line = self._line(neighbour)
        if line.refused_since is None:
            line.refused_since = time.time()
        if line.reason != reason:
            line.reason = reason
            self.log.warning(REFUSED, about=neighbour, detail=reason)

    def unreachable(self, neighbour: str, reason: str) -> None:
        """A neighbour that we dialled is not there."""
        line = self._line(neighbour)
        line.refused_since = None
        if line.reason != reason:
            line.reason = reason
            self.log.info("link not reached", about=neighbour, detail=reason)

    def _line(self, neighbour: str) -> _Line:
        return self._lines.setdefault(neighbour, _Line(time.time()))

    def _changed(self, line: _Line, up: bool, reason: str) -> float:
        """How long it was as it was."""
        now = time.time()
        after_s, line.since = now - line.since, now
        line.up, line.reason = up, reason
        line.refused_since = None
        return after_s

    # --- what lasts ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Notice what has begun and what is over."""
        server, now = self._server, time.time()
        links = server.shell.machine.links
        for name in [name for name in self._lines if name not in links]:
            del self._lines[name]
        for name, link in links.items():
            line = self._line(name)
            if line.up is not link.greeted:  # and the machine has not said so
                after_s = self._changed(line, link.greeted, "")
                self.log.info(UP if link.greeted else DOWN, about=name, after_s=after_s)
        self._look_at_store(server.shell.machine.node.hosted.store_is_full, now)
        self._look_at_troubles(server.troubles(), now)
        self._look_at_standby(server.standby_warning(), now)

    def _look_at_standby(self, said: str, now: float) -> None:
        if said and self._standby_since is None:
            self._standby_since = now
            self.log.warning("standby", detail=said)
        elif not said and self._standby_since is not None:
            self.log.info("standby is back", after_s=now - self._standby_since)
            self._standby_since = None

    def _look_at_store(self, is_full: bool, now: float) -> None:
        if is_full and self._full_since is None:
            self._full_since = now
            self.log.warning("store full", policy=self._server.config.store.policy_at_limit)
        elif not is_full and self._full_since is not None:
            self.log.info("store has room again", after_s=now - self._full_since)
            self._full_since = None

    def _look_at_troubles(self, troubles: Mapping[str, str], now: float) -> None:
        for what, detail in troubles.items():
            known = self._troubles.get(what)
            if detail and known is None:
                self.log.error("trouble", what=what, detail=detail)
            if detail:
                self._troubles[what] = Finding(what, detail, known.since if known else now)
        for what in [what for what in self._troubles if not troubles.get(what)]:
            self.log.info(
                "trouble is over", what=what, after_s=now - self._troubles.pop(what).since
            )

    def troubles(self) -> list[Finding]:
        """What keeps the broker from its work."""
        self.look()
        before = time.time() - LINK_PATIENCE_S
        refusing = [
            Finding(REFUSED, f"{name} refuses the link: {line.reason}", line.refused_since)
            for name, line in self._lines.items()
            if line.refused_since is not None and line.refused_since <= before
        ]
        return [*self._troubles.values(), *refusing]

    def warnings(self) -> list[Finding]:
        """What else an operator should know."""
        self.look()
        config, now = self._server.config, time.time()
        found = [Finding(*each, self._began) for each in exposures(config, self._config_file)]
        for name, line in self._lines.items():
            if not line.up and line.since <= now - LINK_PATIENCE_S:
                reason = f": {line.reason}" if line.reason else ""
                found.append(Finding(DOWN, f"no link to {name}{reason}", line.since))
        if said := self._server.standby_warning():
            found.append(Finding("standby", said, self._standby_since or now))
        if self._full_since is not None:
            refuse = config.store.policy_at_limit == "refuse"
            what = (
                "new events are refused" if refuse else "events for those who are away are dropped"
            )
            found.append(Finding("store full", what, self._full_since))
        return found

    def health(self, *, with_details: bool = True) -> dict[str, Any]:
        """All of it, for programs. Where somebody is open to attack is not for everybody."""
        troubles = [each.as_dict() for each in self.troubles()]
        warnings = [each.as_dict() for each in self.warnings()]
        if not with_details:
            warnings = [{"what": each["what"], "since": each["since"]} for each in warnings]
        return {"ok": not troubles, "troubles": troubles, "warnings": warnings}
