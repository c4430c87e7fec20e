"""PEER: publishers at cluster-heads, subscribers at edge-brokers (001 section 3.2).

A broker with more than one neighbour is a *cluster-head*. One whose only neighbour is a cluster-head is an
*edge-broker* of that one's cluster, which is named after the head. With one or two brokers nobody has a
role. How many neighbours a broker has it tells each of them in a note, whenever that changes; and now and
then again, since notes are not kept for who is away.

    neighbours   of its neighbour   role
    0            -                  none
    1            1, or not known    none
    1            2 or more          edge-broker
    2 or more    -                  cluster-head

Who is served where:

    client                          belongs
    only publishes                  at the cluster-head
    subscribes                      at an edge-broker, whichever
    subscribes and publishes        at an edge-broker: what it costs is what it is delivered, and that is to
                                    be balanced; what it publishes takes one link more
    neither yet                     anywhere
    durable                         where it is: its session stays

A client that is elsewhere is *misplaced*, and is redirected: subscribers to an edge-broker drawn at random
among those that are not overloaded (all, if all are), publishers to the head. A head without edge-brokers
keeps its subscribers. So when a role changes, everybody is converted; and what control needs is no client,
and stays. A client has a moment to say all that it is here for before it is judged. Who may not be moved just
now, because it rests after another optimiser has moved it, is judged again.

**Links that move** change roles, too. A head that is left with one link becomes an edge-broker, and if the
one at the other end of it had none so far, all subscribers there would be sent to it, each one link farther
away. No counter of events has foreseen that, and nothing that moves links can repay it, as links of
edge-brokers stay. So that is objected to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from roost.broker.errors import RemoteProtocolError

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

# From its first word on, a client has so long to say the others.
JUDGED_AFTER_S = 1.0
# Whoever could not be sent away then is judged again, after twice as long each time.
JUDGED_AGAIN_UP_TO_S = 60.0
# Whoever has not heard from a neighbour asks again, after twice as long each time.
ASK_FROM_S, ASK_UP_TO_S = 0.5, 30.0
# Neighbours that are known are told again.
TELL_AGAIN_S = 300.0
TELL = "roles"
JUDGE = "misplaced"


class Role(Enum):
    NONE = "none"
    HEAD = "cluster-head"
    EDGE = "edge-broker"


class RoleNote(Struct, frozen=True, array_like=True):
    """What a broker tells a neighbour."""

    neighbours: int
    asks: bool  # for the same
    closed: bool = False  # it is to be emptied, and takes nobody any more


_decoder = msgspec.msgpack.Decoder(RoleNote)


class Peer:
    """The role of one broker, and who belongs there.

    `changed(now)` is told when the role, the cluster or the neighbours are others; `choose(edges, client)`
    draws the edge-broker for a subscriber."""

    def __init__(
        self,
        around: Surroundings,
        changed: Callable[[float], None],
        choose: Callable[[Sequence[str], str], str],
    ) -> None:
        self._around = around
        self._changed = changed
        self._choose = choose
        self._degrees: dict[str, int] = {}  # of neighbours: how many neighbours they have
        self._closed: dict[str, None] = {}  # neighbours that take nobody any more
        self.is_closed = False  # the same of this broker
        self._ask_s = ASK_FROM_S
        self._judging = False
        self._judge_s = JUDGED_AFTER_S
        self.role = Role.NONE
        self.cluster = ""  # the name of its head

    def start(self) -> None:
        self._tell_all(asks=True)
        self._around.set_timer(TELL, self._ask_s)

    # --- roles --------------------------------------------------------------------------------------

    @property
    def edges(self) -> list[str]:
        """Of a head: its edge-brokers."""
        if self.role is not Role.HEAD:
            return []
        return [name for name in self._around.neighbours if self._degrees.get(name) == 1]

    @property
    def heads(self) -> list[str]:
        """The heads of neighbouring clusters."""
        return [name for name in self._around.neighbours if self._degrees.get(name, 0) > 1]

    def neighbours_changed(self, now: float) -> None:
        there = self._around.neighbours
        self._degrees = {name: n for name, n in self._degrees.items() if name in there}
        self._tell_all(asks=False)
        self._ask_s = ASK_FROM_S
        self._around.set_timer(TELL, self._ask_s)
        self._consider(now)

    def told(self, neighbour: str, body: bytes, now: float) -> None:
        try:
            note = _decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"a note on roles of {neighbour}: {error}") from None
        before, self._degrees[neighbour] = self._degrees.get(neighbour), note.neighbours
        self._closed.pop(neighbour, None)
        if note.closed:
            self._closed[neighbour] = None
        if note.asks:
            self._tell(neighbour, asks=False)
        if before != note.neighbours:
            self._consider(now)

    def _consider(self, now: float) -> None:
        """Which role the broker has, and whether that is new."""
        neighbours = self._around.neighbours
        role, cluster = Role.NONE, ""
        if len(neighbours) > 1:
            role, cluster = Role.HEAD, self._around.broker
        elif neighbours and self._degrees.get(neighbours[0], 0) > 1:
            role, cluster = Role.EDGE, neighbours[0]
        self.role, self.cluster = role, cluster
        self._changed(now)
        self.judge_soon()

    def _tell_all(self, *, asks: bool) -> None:
        for name in self._around.neighbours:
            self._tell(name, asks=asks)

    def _tell(self, neighbour: str, *, asks: bool) -> None:
        note = RoleNote(len(self._around.neighbours), asks, self.is_closed)
        self._around.tell(neighbour, msgspec.msgpack.encode(note), "PEER")

    def close(self, *, is_closed: bool) -> None:
        """This broker takes nobody any more, or does so again."""
        self.is_closed = is_closed
        self._tell_all(asks=False)

    # --- clients ------------------------------------------------------------------------------------

    def judge_soon(self) -> None:
        """A client has said what it is here for, or the role has changed."""
        if not self._judging:
            self._judging = True
            self._judge_s = JUDGED_AFTER_S
            self._around.set_timer(JUDGE, JUDGED_AFTER_S)

    def timer(self, name: str) -> bool:
        """Whether it was one of these."""
        if name == TELL:
            unknown = [n for n in self._around.neighbours if n not in self._degrees]
            for neighbour in unknown:
                self._tell(neighbour, asks=True)
            if not unknown:
                self._tell_all(asks=False)
            self._ask_s = min(2 * self._ask_s, ASK_UP_TO_S)
            self._around.set_timer(TELL, self._ask_s if unknown else TELL_AGAIN_S)
        elif name == JUDGE:
            self._judging = False
            self.judge()
        else:
            return False
        return True

    def misplaced(self) -> list[str]:
        """The clients here that belong elsewhere, and would go."""
        around = self._around
        if self.role is Role.HEAD and self._open_edges:
            return self._subscribers()
        if self.role is Role.EDGE and (publishers := around.publishers()):
            clients = around.clients()
            found = [client for client in publishers if not clients.get(client)]
            return [client for client in found if around.is_movable(client)]
        return []

    @property
    def _open_edges(self) -> list[str]:
        return [edge for edge in self.edges if edge not in self._closed]

    def _subscribers(self) -> list[str]:
        """Of those here: who would go to an edge-broker, if there is one."""
        around = self._around
        found = [client for client, subscriptions in around.clients().items() if subscriptions]
        return [client for client in found if around.is_movable(client)]

    def objection_to_edge(self, neighbour: str) -> str:
        """What speaks against a link of this neighbour that is to move here.

        If it has one other left, the one to here, it becomes an edge-broker of this cluster.
        """
        if self._degrees.get(neighbour) != 2 or self._open_edges or not self._subscribers():
            return ""
        here = self._around.broker
        return f"{neighbour} would become the edge-broker for the subscribers of {here}"

    def place_for(self, client: str) -> str:
        """The broker at which a misplaced client is to be."""
        if self.role is Role.EDGE:
            return self.cluster
        return self._choose(self._open_edges, client)

    def judge(self) -> None:
        """Have everybody who is misplaced go where they belong."""
        around, stays = self._around, False
        for client in self.misplaced():
            there = self.place_for(client)
            address = around.address_of(there)
            if address is None:
                stays = True  # it has not said yet where it is
                continue
            cause = around.propose(
                "role",
                "redirect",
                client,
                there,
                subjects=(client,),
                evidence={"role": self.role.value, "cluster": self.cluster},
                predicted={},
            )
            if cause is not None:
                around.redirect(client, address, cause)
            else:
                stays = True
        if stays and around.acting:
            self._judge_s = min(2 * self._judge_s, JUDGED_AGAIN_UP_TO_S)
            around.set_timer(JUDGE, self._judge_s)
