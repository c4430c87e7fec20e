"""What a principal may do: a filter for what it publishes and one for what it subscribes to.

A request is allowed when the filter covers it. What nobody granted is not allowed. An answer is "" or the
objection, in words for the one who asked.
"""

from __future__ import annotations

from msgspec import Struct

from roost.language import Advertisement, Event, Subscription, covers

# The objection to whoever has not said who they are.
NOBODY = "security is on, and nobody has logged in on this connection"
# A client belongs to a principal if its name is the principal's, or goes on behind this.
NAME_SEPARATOR = "~"
# So does what the client calls its own: sessions, subscriptions, advertisements.
NAME_MARKS = (NAME_SEPARATOR, "/")


class Permission(Struct, frozen=True, gc=False):
    """A principal, and what was granted to it."""

    principal: str
    publish: Subscription | None = None  # covers what it may publish; None is nothing
    subscribe: Subscription | None = None
    link: bool = False  # it is a broker of the federation
    administer: bool = False  # it may see and change how a broker runs
    names: tuple[str, ...] = ()  # that stand for it in certificates

    def objection_to_client(self, client: str) -> str:
        """To a session in this name. Events are told apart by it, so nobody may use another's."""
        if client == self.principal or client.startswith(self.principal + NAME_SEPARATOR):
            return ""
        return (
            f"{self.principal!r} may not call itself {client!r}; expected {self.principal!r},"
            f" or a name that begins with {self.principal + NAME_SEPARATOR!r}"
        )

    def objection_to_name(self, name: str) -> str:
        """To calling something so: what is another's, at whatever broker, can't be taken from it.

        What belongs to a principal begins with its name and one of these marks, which no principal's name has
        in it. A name without any of them is nobody's.
        """
        if name.startswith(tuple(self.principal + mark for mark in NAME_MARKS)):
            return ""
        if name == self.principal or not any(mark in name for mark in NAME_MARKS):
            return ""
        return (
            f"{self.principal!r} may not call anything {name!r}; expected a name that begins with"
            f" {self.principal + NAME_SEPARATOR!r}"
        )

    def objection_to_subscription(self, subscription: Subscription) -> str:
        if self.subscribe is None:
            return f"{self.principal!r} may not subscribe to anything"
        if covers(self.subscribe, subscription):
            return ""
        return f"{self.principal!r} may only subscribe to what {str(self.subscribe)!r} covers"

    def objection_to_advertisement(self, advertisement: Advertisement) -> str:
        if self.publish is None:
            return f"{self.principal!r} may not publish anything"
        if covers(self.publish, advertisement):
            return ""
        return f"{self.principal!r} may only advertise what {str(self.publish)!r} covers"

    def objection_to_event(self, event: Event) -> str:
        if self.publish is None:
            return f"{self.principal!r} may not publish anything"
        if self.publish.matches(event):
            return ""
        return f"{self.principal!r} may only publish what matches {str(self.publish)!r}"

    def objection_to_link(self, broker: str) -> str:
        """To its greeting as this broker. One neighbour must not read what is for another."""
        if not self.link:
            return f"{self.principal!r} is not a broker of this federation"
        if broker == self.principal or broker in self.names:
            return ""
        return f"{self.principal!r} may not greet as {broker!r}; expected the broker of that name"
