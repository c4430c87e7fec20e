"""The one error that every part of Roost may raise towards a person, and how messages name a type."""

import builtins


class UserError(Exception):
    """Bad input from a user: one message, exit code 2, no traceback.

    The message stands alone: it says what was wrong, where, and what would have been right.
    """


def type_of(value: object) -> str:
    """The type of what was handed in, as a message says it.

    >>> type_of(7), type_of("text"), type_of(None)
    ('an int', 'a str', 'None')
    """
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__name__
    if kind.__module__ != "builtins" and hasattr(builtins, name):
        name = f"{kind.__module__}.{name}"  # the `bool` of NumPy is another one
    return f"an {name}" if name[0] in "aeioAEIO" else f"a {name}"
