"""A broker and its standby as child processes, on ports that are free just now: for tests and benchmarks.

For whoever looks at a pair from outside, as `child_broker` is for a broker.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roost.runtime.broker_process import BrokerProcess, write_settings
from roost.runtime.federation import free_ports

HOST = "127.0.0.1"
# How long to wait for what must come, on a machine that may be busy.
PATIENCE_S = 60.0


def until(what: Callable[[], Any], about: str, within_s: float = PATIENCE_S) -> Any:
    """What it gives, once that is something."""
    end = time.monotonic() + within_s
    while not (found := what()):
        if time.monotonic() > end:
            raise RuntimeError(f"in vain for {within_s:g} s: {about}")
        time.sleep(0.02)
    return found


class ChildNode:
    """One of the two."""

    def __init__(self, folder: Path, tables: dict[str, dict[str, Any]]) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.config, self.said = folder / "roost.toml", folder / "said"
        self.port = int(tables["broker"]["port"])
        self.admin_port = int(tables["admin"]["port"])
        self.address = f"{HOST}:{self.port}"
        write_settings(self.config, tables)
        authority = tables.get("tls", {}).get("authority")
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self.process: BrokerProcess | None = None

    def start(self) -> None:
        self.process = BrokerProcess(self.config, self.said)

    @property
    def running(self) -> BrokerProcess:
        assert self.process is not None
        return self.process

    def ask(self, page: str, body: Any = None) -> dict[str, Any]:
        """A page of its operators'; {} if it does not answer."""
        data = None if body is None else json.dumps(body).encode()
        scheme = "http" if self._tls is None else "https"
        request = urllib.request.Request(f"{scheme}://{HOST}:{self.admin_port}{page}", data)
        try:
            with urllib.request.urlopen(request, timeout=2, context=self._tls) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            return dict(json.load(error))
        except (OSError, ValueError):
            return {}

    def pair(self) -> dict[str, Any]:
        return self.ask("/status").get("standby") or {}

    def has_role(self, role: str) -> bool:
        return bool(self.pair().get("role") == role)


class ChildPair:
    """The broker B0, of two nodes; both run when it is made, unless it is not to start."""

    def __init__(
        self,
        folder: Path,
        *,
        standby: dict[str, Any] | None = None,
        tables: dict[str, dict[str, Any]] | None = None,
        start: bool = True,
    ) -> None:
        ports = free_ports(5)
        meet = f"{HOST}:{ports[4]}"
        self.nodes = [
            ChildNode(
                folder / name,
                {
                    "broker": {"name": "B0", "port": ports[2 * place], "data": "data"}
                    | (tables or {}).get("broker", {}),
                    "admin": {"port": ports[2 * place + 1]},
                    "standby": {
                        "role": ("primary", "standby")[place],
                        "address": meet,
                        "beside": f"{HOST}:{ports[2 - 2 * place]}",
                        **(standby or {}),
                    },
                    **{k: v for k, v in (tables or {}).items() if k != "broker"},
                },
            )
            for place, name in enumerate(("one", "two"))
        ]
        self.url = f"roost://{self.nodes[0].address},{self.nodes[1].address}"
        if start:
            for node in self.nodes:
                node.start()
            self.joined()

    def joined(self) -> tuple[ChildNode, ChildNode]:
        """Once one leads and the other has all: the two."""
        return until(self._joined, f"a pair: {[node.pair() for node in self.nodes]}")  # type: ignore[no-any-return]

    def _joined(self) -> tuple[ChildNode, ChildNode] | None:
        for leader, other in (self.nodes, self.nodes[::-1]):
            here, there = leader.pair(), other.pair()
            # A leader is a member, too: one that was stopped, and wakes up, takes the one that has gone on
            # for its standby until it hears of it.
            follows = there.get("role") == "standby" and there["member"]
            if here.get("role") == "leader" and not here["alone"] and follows:
                return leader, other
        return None

    def leader(self) -> ChildNode:
        return until(  # type: ignore[no-any-return]
            lambda: next((n for n in self.nodes if n.has_role("leader")), None), "a leader"
        )

    def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.process.kill()
