"""The one error that every part of Roost may raise towards a person."""


class UserError(Exception):
    """Bad input from a user: one message, exit code 2, no traceback.

    The message stands alone: it says what was wrong, where, and what would have been right.
    """
