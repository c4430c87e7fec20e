"""Modules that are found, not known: by the name of an entry point, or as `package.module:Class`.

A package offers one under its name in its own metadata, in the group `roost.modules`; those of Roost itself
are in `roost.built_in`. An *order* says what is to become of one: its state, and settings of its own, as
`acting limit=10`. Settings are those of its `Config`, a msgspec Struct, which is what it is made with; a
module without one is made with nothing. What is in a struct within it has a dot: `goal.priority=load`; a list
has commas: `edges=B3,B4`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

import msgspec
from msgspec import Struct, inspect

from roost.blame import blaming
from roost.broker.module import Module, ModuleState
from roost.built_in import BUILT_IN, MODULES
from roost.errors import UserError

STATES = tuple(state.value for state in ModuleState)


class ModuleOrder(Struct, frozen=True):
    """A module, what it is to do, and how."""

    reference: str
    state: ModuleState = ModuleState.ACTING
    settings: Mapping[str, str] = {}


def parse_order(reference: str, words: Iterable[str]) -> ModuleOrder:
    """An order in words: a state, if it is not acting, and KEY=VALUE; UserError says what will not do."""
    state, settings = ModuleState.ACTING, {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key:
            settings[key] = value
        elif word in STATES:
            state = ModuleState(word)
        else:
            raise UserError(
                f"the module {reference}: {word!r}; expected one of {', '.join(STATES)}, or KEY=VALUE"
            )
    return ModuleOrder(reference, state, settings)


def find(reference: str, group: str, noun: str) -> object:
    """What a reference means, of those that packages offer in a group; UserError if nothing."""
    what = f"the {noun} {reference!r} can't be imported"
    own = BUILT_IN.get(group, {})
    if reference in own:
        return pkgutil.resolve_name(own[reference])
    if ":" in reference:
        with blaming(what, reference.partition(":")[0]):
            return pkgutil.resolve_name(reference)
    offered = {point.name: point for point in entry_points(group=group)}
    if reference not in offered:
        there = ", ".join(sorted({*own, *offered})) or "none"
        raise UserError(
            f"no package offers a {noun} {reference!r} (there are: {there});"
            " expected one of these, or package.module:Class"
        )
    with blaming(what, offered[reference].module):
        return offered[reference].load()


def module_class(reference: str) -> type[Module]:
    """The class that a reference means; UserError says what is wrong with it."""
    found = find(reference, MODULES, "module")
    if not (isinstance(found, type) and issubclass(found, Module) and found.name):
        raise UserError(
            f"{reference!r} is no module; expected a class derived from roost.broker.module.Module,"
            " with a name"
        )
    return found


def objection_to_ranks(kind: type[Module]) -> str:
    """To a module in a hierarchy; "" if it has its place there."""
    if not kind.trees_only:
        return ""
    return (
        f"{kind.name} knows trees only; expected none of it in a hierarchy (routing cluster, tree)"
    )


def make_module(order: ModuleOrder) -> Module:
    """A module of its own for one broker; UserError if its settings will not do, or it can't be made."""
    kind = module_class(order.reference)
    what = f"the module {order.reference}"
    settings = settings_of(what, kind.Config, order.settings)
    with blaming(f"{what} can't be made", kind):
        return kind() if settings is None else kind(settings)


def settings_of(
    what: str, config: type[Struct] | None, settings: Mapping[str, str]
) -> Struct | None:
    """The settings that words mean, of something that has these or none; UserError if they will not do."""
    if config is None:
        if settings:
            raise UserError(f"{what} has no settings; it was given some")
        return None
    fields = ", ".join(config.__struct_fields__)
    lists = {f.name for f in msgspec.structs.fields(config) if _is_list(f.type)}
    plain: dict[str, object] = {}
    within: dict[str, dict[str, str]] = {}
    for key, value in settings.items():
        name, dot, inner = key.partition(".")
        if name not in config.__struct_fields__:
            raise UserError(f"{what} has no setting {name!r}; it has {fields}")
        if dot:
            within.setdefault(name, {})[inner] = value
        else:
            plain[name] = value.split(",") if name in lists else value
    with blaming(what, config, f"it has {fields}"):
        try:
            return msgspec.convert({**within, **plain}, config, strict=False)
        except msgspec.ValidationError as error:
            raise UserError(str(error)) from None


def _is_list(type_: object) -> bool:
    info = inspect.type_info(type_)
    plain = info.type if isinstance(info, inspect.Metadata) else info
    return isinstance(plain, inspect.VarTupleType | inspect.ListType)
