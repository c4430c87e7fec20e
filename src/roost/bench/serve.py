"""Benchmark of a live partitioned service: dispatchers and matchers as processes (004 section IV.B).

The paper's subscriptions, 40,000 of which an event matches 129. Two figures:

    matched      events a second that matchers have answered for, counted by them; a dispatcher without
                 clients asks all the time (`asker`)
    end to end   events a second from a publisher to ten subscribers, who have a tenth of the subscriptions
                 each and one for everything, so that each gets every event and counts (`loads`)

And where the time goes: what the steps that an event passes take, each by itself, in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from roost.bench.asker import ASKER
from roost.bench.loads.base import HOST, Driver, Inlet, Outlet, Scenario
from roost.bench.loads.base import Result as Run
from roost.bench.loads.harness import run_scenario
from roost.bench.loads.processes import PrivateServer, Processes, cpu_s, free_port
from roost.bench.loads.roost import (
    RoostDriver,
    RoostInlet,
    RoostOutlet,
    RoostSession,
    publication_frame,
)
from roost.bench.machine import commit, machine
from roost.bench.report import Result, Table
from roost.bench.serve_steps import steps_us
from roost.bench.timing import Say, silent
from roost.broker.messages import Message, Subscribe
from roost.experiments.partition.setup import MESSAGES, dimensions_of, points, subscription_texts
from roost.language import parse_subscription
from roost.partition.naming import DISPATCHER, plan_service
from roost.runtime.admin_client import NoAnswerError, ask
from roost.runtime.broker_process import command_of, write_settings

SUBSCRIBERS = 10
EVERYTHING = "d0 >= 0"
# Subscriptions are with all matchers when nothing has changed there for so long.
QUIET_S = 2.0
LOOK_S = 0.25
# One that is busy answers late.
ANSWERS_S = 60.0
PLENTY = 100_000_000


class Service(PrivateServer):
    """One dispatcher, and matchers. `asking`: the dispatcher is one that asks by itself, with these words."""

    name = "roost serve"

    def __init__(self, matchers: int, asking: str = "") -> None:
        super().__init__()
        self._matchers = matchers
        self._asking = asking
        self.admin_ports = [free_port() for _ in range(matchers)]

    def launch(self, processes: Processes, scenario: Scenario) -> None:  # noqa: ARG002
        plan = plan_service(1, self._matchers, dimensions_of(4))
        ports = {name: free_port() for name in plan.names} | {"D0": self.publisher_port}
        admin = dict(zip(plan.names, [-1, *self.admin_ports], strict=True))
        for name in plan.names:
            neighbours = {b: "" for a, b in plan.links if a == name}
            neighbours |= {a: f"{HOST}:{ports[a]}" for a, b in plan.links if b == name}
            kind = plan.machines[name]
            if self._asking and kind.startswith(DISPATCHER):
                kind = f"{kind.replace(DISPATCHER, ASKER)} {self._asking}"
            tables: dict[str, dict[str, object]] = {
                "broker": {"name": name, "host": HOST, "port": ports[name], "machine": kind},
                "links": {"neighbours": neighbours},
                "admin": {"host": HOST, "port": admin[name]},
            }
            config = processes.folder / f"{name}.toml"
            write_settings(config, tables)
            processes.start(command_of(config))
            processes.wait_for_port(ports[name])


def figure(port: int, name: str) -> int:
    """What a matcher says of itself, when it has time to."""
    until = time.monotonic() + ANSWERS_S
    while True:
        try:
            return int(ask(f"http://{HOST}:{port}", "/status")[name])
        except NoAnswerError:
            if time.monotonic() > until:
                raise


def wait_until_filled(ports: list[int], least: int) -> None:
    """Until matchers have subscriptions, at least so many together, and hear of no more."""
    seen, since = -1, time.monotonic()
    while seen < least or time.monotonic() - since < QUIET_S:
        now = sum(figure(port, "subscriptions") for port in ports)
        if now != seen or any(figure(port, "filling") for port in ports):
            seen, since = now, time.monotonic()
        time.sleep(LOOK_S)


class ServiceDriver(RoostDriver):
    """Ten subscribers with the paper's subscriptions, and a publisher of points."""

    def __init__(self, subscriptions: int, admin_ports: list[int]) -> None:
        self._subscriptions = subscriptions
        self._admin_ports = admin_ports

    def tuned(self, scenario: Scenario) -> Scenario:
        return replace(super().tuned(scenario), warm_up=MESSAGES)

    def subscriber(self, scenario: Scenario, port: int, number: int) -> Inlet:
        name = f"s{number}"
        session = RoostSession(port, name)
        texts = list(subscription_texts(scenario.seed, self._subscriptions))
        wanted: list[Message] = [
            Subscribe(id=f"{name}/{n:04}", subscription=parse_subscription(text), cause=name)
            for n, text in enumerate([EVERYTHING, *texts[number::SUBSCRIBERS]])
        ]
        session.control(wanted)
        return RoostInlet(session.sock, scenario)

    def publisher(self, scenario: Scenario, port: int) -> Outlet:
        wait_until_filled(self._admin_ports, self._subscriptions)
        session = RoostSession(port, "p")
        frames = [
            publication_frame({f"d{d}": value for d, value in enumerate(point)})
            for point in points(scenario.seed, MESSAGES).tolist()
        ]
        return RoostOutlet(session.sock, frames)


def matched(matchers: int, subscriptions: int, seconds: float, seed: int) -> dict[str, float]:
    """What matchers match a second, and how much of a core that took each and the dispatcher."""
    service = Service(matchers, f"subscriptions={subscriptions} seed={seed}")
    service.start(Scenario("matched", PLENTY))
    try:
        ports = service.admin_ports
        wait_until_filled(ports, subscriptions)
        while not all(figure(port, "matched") for port in ports):
            time.sleep(LOOK_S)
        before = sum(figure(port, "matched") for port in ports)
        cpu_before, began = [cpu_s([pid]) for pid in service.pids], time.monotonic()
        time.sleep(seconds)
        count = sum(figure(port, "matched") for port in ports) - before
        took_s = time.monotonic() - began
        used = [cpu_s([pid]) - was for pid, was in zip(service.pids, cpu_before, strict=True)]
    finally:
        service.stop()
    return {
        "matched/per_s": count / took_s,
        "matched/dispatcher_busy": used[0] / took_s,
        "matched/matcher_busy": sum(used[1:]) / took_s / matchers,
        "matched/cpu_us": 1e6 * sum(used) / max(1, count),
    }


def end_to_end(matchers: int, subscriptions: int, seconds: float, seed: int) -> dict[str, float]:
    """From a publisher to ten subscribers, in order."""
    service = Service(matchers)
    driver: Driver = ServiceDriver(subscriptions, service.admin_ports)
    scenario = Scenario("serve", PLENTY, seconds=seconds, subscribers=SUBSCRIBERS, seed=seed)
    run: Run = run_scenario(service, driver, scenario)
    return {
        "end_to_end/published_per_s": run.published_per_s,
        "end_to_end/delivered_per_s": run.delivered_per_s,
        "end_to_end/lost": run.lost,
        "end_to_end/disordered": run.disordered,
        "end_to_end/server_cpu_us": run.server_cpu_s_per_million * SUBSCRIBERS,
    }


def run(matchers: int, subscriptions: int, seconds: float, seed: int, say: Say = silent) -> Result:
    """Both, and the steps."""
    figures: dict[str, float] = {}
    parts: dict[str, Callable[[], dict[str, float]]] = {
        "what the steps take": lambda: steps_us(matchers, subscriptions, seed),
        "what matchers match": lambda: matched(matchers, subscriptions, seconds, seed),
        "end to end": lambda: end_to_end(matchers, subscriptions, seconds, seed),
    }
    for what, measure in parts.items():
        say(what)
        figures |= measure()
    return {
        "bench": "serve",
        "config": {
            "workload": "bluedove",
            "subscriptions": subscriptions,
            "dispatchers": 1,
            "matchers": matchers,
            "subscribers": SUBSCRIBERS,
            "seconds": seconds,
            "seed": seed,
            "machine": machine(),
            "commit": commit(),
        },
        "results": figures,
        "ratios": {
            # The paper's 20 matchers with 4 cores each (IV.C).
            "matched_over_paper": figures["matched/per_s"] / 114_000,
        },
    }


def is_clean(result: Result) -> bool:
    return not (result["results"]["end_to_end/lost"] or result["results"]["end_to_end/disordered"])


def table(result: Result) -> Table:
    """The figures for people."""
    figures, config = result["results"], result["config"]
    steps = {k.removeprefix("step_us/"): v for k, v in figures.items() if k.startswith("step_us/")}
    rows = [
        ["events matched a second, at the matchers", f"{figures['matched/per_s']:,.0f}"],
        ["processor time an event, us", f"{figures['matched/cpu_us']:,.0f}"],
        ["dispatcher, of a core", f"{figures['matched/dispatcher_busy']:.2f}"],
        ["a matcher, of a core", f"{figures['matched/matcher_busy']:.2f}"],
        ["end to end, events a second", f"{figures['end_to_end/published_per_s']:,.0f}"],
        ["end to end, deliveries a second", f"{figures['end_to_end/delivered_per_s']:,.0f}"],
        ["processor time an event, us", f"{figures['end_to_end/server_cpu_us']:,.0f}"],
        *([f"step: {name}, us", f"{value:,.1f}"] for name, value in steps.items()),
    ]
    lost = figures["end_to_end/lost"] + figures["end_to_end/disordered"]
    notes = [
        f"1 dispatcher and {config['matchers']} matchers as processes, {config['subscriptions']:,}"
        f" subscriptions, {config['subscribers']} subscribers who get every event.",
        f"Lost, doubled or out of order: {lost:,.0f}.",
    ]
    return Table("serve", "The partitioned service, live", ["what", "figure"], rows, notes)
