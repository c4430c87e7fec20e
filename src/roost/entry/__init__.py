"""An entry point: a client asks any broker where it had better connect (003 section IV.C).

Brokers tell each other where they are and how many clients they have (`module`); whoever asks one of them is
given a few addresses (`directory`): in turn, as in the paper, by load, or all of them, for the client to
find the nearest. The client's side is `roost.client.entry`.
"""

from roost.entry.directory import Directory, Policy
from roost.entry.module import EntryPoint, EntrySettings

__all__ = ["Directory", "EntryPoint", "EntrySettings", "Policy"]
