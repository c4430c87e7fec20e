"""Advertisements for applications that don't write any.

Brokers route by advertisements: what none covers is refused. An application that has not advertised
anything is taken at its word: from the first event of each *shape* follows an advertisement that covers all
of that shape. The shape is the names of the attributes, and the value of `class`, if that is a string; so
events of `class = 'STOCK'` with a symbol and a volume are advertised as

    class = 'STOCK' and symbol present and volume present

NaN is as good as absent in the language, so an attribute with it is no part of the shape. Whoever publishes
very many shapes gets one advertisement of everything instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from roost.language import Advertisement, Filter, Operator, Predicate, Value
from roost.language.values import CONSTANT_LENGTH_MAX, is_nan

CLASS = "class"
# So many advertisements at most, and then one of everything.
SHAPES_MAX = 64
# An advertisement with fewer predicates covers more, and none has to be longer than this.
NAMES_MAX = 64

# The value of `class`, if it is a string that an advertisement can name, and the names of the attributes.
Shape: TypeAlias = tuple[str | None, tuple[str, ...]]

EVERYTHING = Advertisement([Filter()])


def shape_of(attributes: Mapping[str, Value]) -> Shape:
    """The shape of an event.

    >>> shape_of({"volume": 7, "class": "STOCK", "price": float("nan")})
    ('STOCK', ('class', 'volume'))
    """
    class_ = attributes.get(CLASS)
    if not isinstance(class_, str) or len(class_) > CONSTANT_LENGTH_MAX:
        class_ = None
    return class_, tuple(sorted(name for name, value in attributes.items() if not is_nan(value)))


def advertisement_of(shape: Shape) -> Advertisement:
    """What covers every event of a shape.

    >>> str(advertisement_of(("STOCK", ("class", "volume"))))
    "class = 'STOCK' and volume present"
    """
    class_, names = shape
    predicates = [] if class_ is None else [Predicate(CLASS, Operator.EQ, class_)]
    predicates += (Predicate(name, Operator.PRESENT) for name in _told(names, class_ is not None))
    return Advertisement([Filter(predicates)])


def _told(names: Iterable[str], has_class: bool) -> list[str]:
    return [name for name in names if not (has_class and name == CLASS)][:NAMES_MAX]


class Derived:
    """Which shapes have been advertised."""

    def __init__(self) -> None:
        self._names: dict[Shape, str] = {}
        self._count = 0
        self._is_everything = False

    def knows(self, shape: Shape) -> bool:
        """Whether events of this shape are advertised."""
        return shape in self._names or self._is_everything

    def missing(self, shape: Shape) -> tuple[str, Advertisement] | None:
        """The advertisement that this shape still needs, under a new name; None if it has one."""
        if self.knows(shape):
            return None
        self._count += 1
        name = f"derived {self._count}"
        if len(self._names) >= SHAPES_MAX:
            self._is_everything = True
            return name, EVERYTHING
        self._names[shape] = name
        return name, advertisement_of(shape)

    def refused(self, name: str) -> None:
        """Forget one that the broker did not want: the next event of the shape asks again."""
        self._names = {shape: known for shape, known in self._names.items() if known != name}
        if name == f"derived {self._count}":
            self._is_everything = False
