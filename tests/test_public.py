"""What applications import is documented, and refuses arguments of a wrong type by their names.

Found by introspection, so that nothing is left out. Clients have tests/client/test_arguments.py, the pipeline
tests/pipeline/test_arguments.py.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from unittest.mock import Mock

import pytest

import roost
import roost.client
from roost.broker.router import Flooding
from roost.client import Tls
from roost.errors import UserError, type_of
from roost.language import (
    Advertisement,
    Event,
    Filter,
    Predicate,
    Subscription,
    parse_advertisement,
    parse_filter,
    parse_subscription,
)
from roost.matching import Index, Naive, OverlapIndex, Poset
from roost.testing import (
    MemoryFederation,
    Oracle,
    Party,
    Scenario,
    World,
    memory_federation,
    parse_workload,
    simulate,
)

PACKAGES = ("client", "language", "matching", "testing", "pipeline")
FILTER = parse_filter("n > 0")
# What arguments may be that have to be given.
FINE: dict[str, Any] = {
    "a": FILTER,
    "b": FILTER,
    "id_": 1,
    "interest": FILTER,
    "ids": [2],
    "predicates": [("n", ">", [1])],
    "columns": {},
    "octets": b"\x80",
    "starts": [0, 1],
    "url": "memory://",
    "filter_": "n > 0",
    "handle": "queue",
    "workload": "0.0 broker add B0 1000 16 10\n1.0 end\n",
    "is_so": lambda: True,
}
# Of a simulation: what is asked about somebody.
SAID = ("received", "broker_of", "story")
# Asked of values that have been looked at, for each of many: these look at none themselves.
TRUSTING = {"kind_of", "Event.trusted"}
# Where the methods of each class are tried.
CLIENTS = "tests/client/test_arguments.py"
PIPELINES = "tests/pipeline/test_arguments.py"
TRIED: dict[str, dict[str, str]] = {
    "client": {
        **dict.fromkeys(("Client", "Subscription", "DurableSubscription", "Outbox"), CLIENTS),
        **dict.fromkeys(("SyncClient", "SyncSubscription", "SyncOutbox"), CLIENTS),
        **dict.fromkeys(("ReceivedEvent", "DurableEvent", "SyncEvent"), CLIENTS),
        **dict.fromkeys(("Advertised", "SyncAdvertised"), CLIENTS),
        "Tls": __file__,
    },
    "language": dict.fromkeys(("Event", "Filter", "Subscription", "Advertisement"), __file__)
    | {"Predicate": __file__},
    "matching": dict.fromkeys(("Index", "Naive", "OverlapIndex", "Poset"), __file__),
    "testing": dict.fromkeys(("MemoryFederation", "Simulation"), __file__)
    | dict.fromkeys(("Oracle", "Party", "Scenario", "World"), __file__),
    "pipeline": dict.fromkeys(("Lake", "SubscriptionLog"), PIPELINES),
}
# What is read and never made by hand; and what is only for annotations.
READ = {"Checks", "Failure", "Fuzzed", "NotedDecision", "Receipt", "Workload"}
NAMES = {"Kind", "Operator", "Matcher"}


def exported(package: str) -> Iterator[tuple[str, Any]]:
    module = import_module(f"roost.{package}")
    for name in module.__all__:
        yield name, getattr(module, name)


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in inspect.getmembers(kind):
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not (inspect.isfunction(function) or inspect.ismethod(function)):
            continue
        if function.__module__.startswith("roost"):
            yield name, function


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_is_documented(package: str) -> None:
    lacking = []
    for name, thing in exported(package):
        if inspect.isclass(thing):
            members = [("", thing), *((f".{n}", method) for n, method in methods_of(thing))]
            lacking += [f"{name}{n}" for n, member in members if not inspect.getdoc(member)]
        elif inspect.isfunction(thing) and not inspect.getdoc(thing):
            lacking.append(name)
    assert lacking == []


def test_the_short_names_are_those_of_the_packages() -> None:
    for name in dir(roost):
        if not name.startswith("_") and inspect.isclass(getattr(roost, name)):
            assert inspect.getdoc(getattr(roost, name)), name


def test_a_type_as_messages_say_it() -> None:
    told = [type_of(value) for value in (None, 1, "x", [], object(), b"", Ellipsis)]
    numpy = import_module("numpy")
    assert type_of(numpy.True_) == "a numpy.bool"
    assert told == ["None", "an int", "a str", "a list", "an object", "a bytes", "an ellipsis"]


# --- arguments --------------------------------------------------------------------------------------


def calls_of(
    function: Callable[..., Any], fine: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each argument by its name, and a call in which it is of a type that nobody expects."""
    parameters = inspect.signature(function).parameters
    needed = {n: fine[n] for n, p in parameters.items() if p.default is p.empty and n in fine}
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:  # these are somebody else's
            yield name, {**needed, name: object()}


async def called(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call it, to the end of whatever it begins."""
    answer = function(**arguments)
    if isinstance(answer, AbstractAsyncContextManager):
        async with answer:
            pass
    elif inspect.isawaitable(answer):
        await answer
    elif isinstance(answer, AbstractContextManager):
        with answer:
            pass
    elif inspect.isgenerator(answer):
        list(answer)


def refusal(function: Callable[..., Any], arguments: dict[str, Any]) -> Exception:
    with pytest.raises((TypeError, ValueError, UserError)) as caught:
        asyncio.run(called(function, arguments))
    return caught.value


def check(
    function: Callable[..., Any],
    says: Mapping[str, str] | None = None,
    fine: Mapping[str, Any] = FINE,
) -> int:
    """That it refuses each argument, and names it; `says` has those that are called otherwise in words."""
    count = 0
    for name, arguments in calls_of(function, fine):
        word = (says or {}).get(name, name.rstrip("_"))
        error = refusal(function, arguments)
        assert word in str(error), f"{function.__qualname__}({name}): {error}"
        # Which would name it as well, and say nothing of its type.
        assert "missing" not in str(error), f"{function.__qualname__}({name}): {error}"
        count += 1
    return count


def test_functions_of_the_language() -> None:
    says = {"a": "interest", "b": "interest", "x": "interest"}
    functions = [thing for _, thing in exported("language") if inspect.isfunction(thing)]
    assert sum(check(f, says) for f in functions if f.__name__ not in TRUSTING) > 10


def test_queues_of_the_client() -> None:
    for function in (roost.client.open_queue, roost.client.poll, roost.client.close_queue):
        assert check(function) >= 1


def test_functions_of_the_testing_kit() -> None:
    ran = simulate(FINE["workload"])
    fine = {**FINE, "world": ran.world, "until": 2.0, "rested": True}
    fine |= {"text": "", "name": "x", "folder": None}
    functions = {name: thing for name, thing in exported("testing") if inspect.isfunction(thing)}
    assert functions.pop("memory_federation") is memory_federation  # whose links have no names
    checked = {name: check(function, fine=fine) for name, function in functions.items()}
    assert (checked["simulate"], checked["fuzz"], checked["until"]) == (9, 4, 2)
    assert sum(checked.values()) > 20
    assert sum(check(getattr(ran, name), {"id_": "id"}) for name in SAID) == 3
    assert "router" in str(refusal(memory_federation, {"router": object()}))
    for link in (object(), ("B0", object()), ["B0", "B1"]):

        def linked(link: Any = link) -> Any:
            return memory_federation(link)

        assert "a link is a" in str(refusal(linked, {}))


def something(hint: Any) -> Any:
    """Of the type that an annotation says."""
    hint = getattr(hint, "__supertype__", hint)
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return something(get_args(hint)[0])
    if kind in (str, int, float):
        return kind(1)
    return [] if kind in (Iterable, Collection) else Mock(spec=kind)


def test_parts_of_the_simulator() -> None:
    workload = parse_workload(FINE["workload"], "workload", None)
    made: dict[Any, dict[str, Any]] = {
        Oracle: {"strategy": Flooding.strategy},
        Party: {"name": "P"},
        Scenario: {"seed": 1, "profile": "none"},
        World: {"settings": workload.settings, "workload": workload.statements},
    }
    checked = {}
    for kind, arguments in made.items():
        part = kind(**arguments)
        count = check(kind, fine=arguments)
        for name, _ in methods_of(kind):
            method = inspect.getattr_static(part, name)
            if not isinstance(method, property):
                hints = get_type_hints(method)
                count += check(
                    getattr(part, name), fine={n: something(hint) for n, hint in hints.items()}
                )
        checked[kind.__name__] = count
    assert min(checked["World"], checked["Oracle"]) > 30
    assert checked["Scenario"] > checked["Party"] == 1


def test_methods_of_a_federation_in_memory() -> None:
    asyncio.run(asked_of_a_federation())


async def asked_of_a_federation() -> None:
    async with memory_federation(("B0", "B1")) as federation:
        client = federation.connect("B0")
        fine = {"a": "B0", "b": "B1", "broker": "B1", "name": "B2", "config": {}, "client": client}
        for name, _ in methods_of(MemoryFederation):
            if name == "names":
                continue
            method = getattr(federation, name)
            for argument, arguments in calls_of(method, fine):
                with pytest.raises((TypeError, ValueError)) as caught:
                    await called(method, arguments)
                word = "broker" if argument in ("a", "b") else argument
                assert word in str(caught.value), f"{name}({argument}): {caught.value}"


def test_who_is_none_of_the_clients_is_not_one_whom_nothing_reached() -> None:
    ran = simulate("0.0 broker add B0 1000 16 10\n0.0 subscriber add S B0 *\n1.0 end\n")
    assert ran.received("S") == ()
    for asked in (ran.received, ran.broker_of):
        with pytest.raises(ValueError, match="there is no client 's'; there are S"):
            asked("s")


@pytest.mark.parametrize("kind", [Index, Naive, OverlapIndex, Poset])
def test_methods_of_matchers(kind: Any) -> None:
    checked = 0
    for name, _ in methods_of(kind):
        matcher = kind()
        method = inspect.getattr_static(matcher, name)
        if not isinstance(method, property):
            checked += check(getattr(matcher, name), {"id_": "id", "ids": "id"})
    assert checked >= 4


@pytest.mark.parametrize("package", PACKAGES)
def test_no_class_is_left_out(package: str) -> None:
    kinds = {name: thing for name, thing in exported(package) if inspect.isclass(thing)}
    errors = {name for name, kind in kinds.items() if issubclass(kind, BaseException)}
    assert kinds.keys() - errors - READ - NAMES == TRIED[package].keys()


def test_what_the_language_is_made_of() -> None:
    kinds: dict[Any, str] = {
        Event: "attributes",
        Filter: "predicates",
        Subscription: "filters",
        Advertisement: "filters",
    }
    for kind, argument in kinds.items():
        for wrong in (object(), [object()], None):
            with pytest.raises((TypeError, ValueError), match=argument[:-1]):
                kind(wrong)
    predicate = next(iter(FILTER.predicates))
    fine = {"attribute": "n", "operator": predicate.operator, "constant": 1}
    # In words: `an object is not a value`, `... is not an Operator`.
    says = {"operator": "Operator", "constant": "not a value"}
    assert check(Predicate, says, fine) == 3
    made = (FILTER, predicate, parse_subscription("n > 0"), parse_advertisement("n > 0"), Event({}))
    assert {type(one).__name__ for one in made} == TRIED["language"].keys()
    tried = 0
    for one in made:
        for name, _ in methods_of(type(one)):
            method = inspect.getattr_static(one, name)
            if isinstance(method, property) or f"{type(one).__name__}.{name}" in TRUSTING:
                continue
            tried += check(getattr(one, name))
    assert tried == 4


def test_files_of_tls() -> None:
    assert check(Tls) == 3
    with pytest.raises(TypeError, match=r"^authority is None; expected a path"):
        Tls(authority=None)  # type: ignore[arg-type]
