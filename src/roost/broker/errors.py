"""Who broke the protocol. Expected refusals are messages, not exceptions."""

from __future__ import annotations


class RemoteProtocolError(Exception):
    """The peer said something that can't be: its connection is closed with this reason, and nothing else."""


class InvariantError(Exception):
    """Our bug: a state that can't be."""
