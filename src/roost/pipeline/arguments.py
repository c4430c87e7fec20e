"""Arguments of the pipeline, looked at where they are handed in, by what their annotations say.

A frame of pandas' where one of Spark's belongs, or a text where a list of them does, would come to light as
an AttributeError somewhere inside, or in a task an hour later. What `arguments_checked` stands above refuses
it at once, by the name of the argument: a TypeError, as everywhere in Roost.

Annotations are read as they stand, `DataFrame | None`: each part of one has to be known to `KINDS`, so that
no argument is passed over in silence. What is inside of a container is looked at only if it is texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


class Kind(NamedTuple):
    """What a part of an annotation asks for, and how a message says so."""

    fits: Callable[[object], bool]
    words: str


def _has(attribute: str) -> Callable[[object], bool]:
    """Sessions and frames of Spark Connect have types of their own, and do the same."""
    return lambda value: hasattr(value, attribute)


def _are_texts(value: object) -> bool:
    # A text is a sequence of texts, too, and never meant.
    if not isinstance(value, Iterable) or isinstance(value, str):
        return False
    return all(isinstance(each, str) for each in value)


KINDS = {
    "None": Kind(lambda value: value is None, "None"),
    "str": Kind(lambda value: isinstance(value, str), "a text"),
    "bool": Kind(lambda value: isinstance(value, bool), "True or False"),
    "int": Kind(
        lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a whole number"
    ),
    "float": Kind(
        lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"
    ),
    "Path": Kind(lambda value: isinstance(value, Path), "a path"),
    "DataFrame": Kind(_has("mapInArrow"), "a DataFrame of Spark's"),
    "SparkSession": Kind(_has("createDataFrame"), "a session of Spark's"),
    "SubscriptionLog": Kind(_has("pins"), "a SubscriptionLog"),
    "pa.Table": Kind(_has("column_names"), "a table of Arrow's"),
    "Sequence[str]": Kind(_are_texts, "a list of texts"),
    "Collection[str]": Kind(_are_texts, "a list of texts"),
    "Sequence[Path]": Kind(lambda value: isinstance(value, Iterable), "a list of paths"),
    "Iterable[int]": Kind(lambda value: isinstance(value, Iterable), "whole numbers"),
    "Iterable[tuple[int, str]]": Kind(
        lambda value: isinstance(value, Iterable) and not isinstance(value, str),
        "(id, filter) of each",
    ),
    "Mapping[str, str]": Kind(lambda value: isinstance(value, Mapping), "a mapping"),
    "Mapping[str, Any]": Kind(lambda value: isinstance(value, Mapping), "a mapping"),
}


def arguments_checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses arguments of other types than it says."""
    signature = inspect.signature(function)
    wanted = {
        name: [KINDS[part] for part in parameter.annotation.split(" | ")]
        for name, parameter in signature.parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    }

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = signature.bind(*args, **kwargs).arguments
        for name, kinds in wanted.items():
            if name in given and not any(kind.fits(given[name]) for kind in kinds):
                # Nobody else has to load the library of clients.
                from roost.client.arguments import wrong  # noqa: PLC0415

                raise wrong(name, given[name], " or ".join(kind.words for kind in kinds))
        return function(*args, **kwargs)

    return checking


def methods_checked(class_: C) -> C:
    """The same for the methods of a class that applications call, and for how one is made."""
    for name, method in list(vars(class_).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(class_, name, arguments_checked(method))
    return class_
