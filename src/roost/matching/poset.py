"""The covering poset: which subscriptions cover which, with the uncovered ones at hand (001 section 2.1.2).

Each unique subscription is a *node*. Subscriptions that cover each other are one node with several ids, its
*peers*, however differently they are written. Above a node stand, as its parents, the narrowest nodes that
cover it; below it, as its children, the widest that it covers. Nodes without a parent are the covering
subscription set (CSS), the children of the imaginary root.

One of a node's ids is its *representative*: the one that came first, and when that is removed the newest
(which will probably stay the longest: a representative that goes has to be replaced wherever it was sent).
All answers but `peers` name nodes by their representatives. A broker that forwards just the CSS forwards
just these, and `insert` and `remove` say what changes:

    insert   the id joins the CSS unless it is `covered_by` something; those `newly_covered` leave it
    remove   the id leaves the CSS if it was there; those that it leaves `uncovered` join it

A subscription that no event can match is covered by every other, and would be the only child of every
narrowest one. It is kept beside the graph, so that it costs the others nothing.

Orders are deterministic. The CSS stands in the order in which nodes became uncovered; nodes in any other
answer stand by age, the oldest first.

What it costs. There are two ways to a new node's place, and the one that promises to be shorter is tried
first: through access keys to groups of nodes of one shape (see `poset_candidates`), or along the edges, which
is given up when it has taken as many steps as there are such groups. Neither goes through all nodes.

- Its parents: the groups under its values and attributes, each a bisection, or the nodes that cover it and
  their children. For `symbol = 'IBM' and volume > 1000` these are a handful whatever the number of nodes.
- Its children: those near its parents, or the groups with the rarest of its demands, each a bisection.
  `symbol = 'IBM'` sees the groups of IBM. The first `volume > 1000` has to see all groups that speak of
  volume, so it costs in proportion to the distinct symbols; one among others sees its neighbours.
- Then the edges that change: the parents times the children.

Linear in the nodes concerned: conjunctions with several free ends within one shape (but in NumPy), and
disjunctions with an access key in common. In the worst case, so are distinct conditions on one attribute that
are neither equalities nor intervals (prefixes, lists), each of which is a shape of its own. One more id for a
node that is there is O(1), as is taking it out again. The CSS is at hand at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView
from typing import NamedTuple

from roost.language import Interest
from roost.matching.conjunct import Parts, parts_cover, parts_of
from roost.matching.contract import DuplicateIdError, UnknownIdError, check_id
from roost.matching.poset_candidates import Candidates


class Inserted(NamedTuple):
    """What an insertion changed."""

    # The representatives of what covers it: of its own node if it joined one, else of its parents.
    covered_by: tuple[int, ...]
    # Those of the CSS that it took the place of.
    newly_covered: tuple[int, ...]


class Removed(NamedTuple):
    """What a removal changed."""

    # Those that are in the CSS from now on: a peer, or children that nothing else covers.
    uncovered: tuple[int, ...]


class Node:
    """A unique subscription."""

    __slots__ = ("age", "children", "ids", "parents", "parts", "representative")

    def __init__(self, parts: Parts, age: int) -> None:
        self.parts = parts
        self.age = age  # lower is older
        self.ids: dict[int, Interest] = {}
        self.representative = -1
        self.parents: dict[Node, None] = {}
        self.children: dict[Node, None] = {}

    def covers(self, other: Node) -> bool:
        return parts_cover(self.parts, other.parts)


class Poset:
    """Subscriptions under ids, partially ordered by covering.

    >>> from roost.language import parse_filter
    >>> poset = Poset()
    >>> poset.insert(1, parse_filter("volume > 1000"))
    Inserted(covered_by=(), newly_covered=())
    >>> poset.insert(2, parse_filter("volume > 0"))
    Inserted(covered_by=(), newly_covered=(1,))
    >>> list(poset.css())
    [2]
    >>> poset.remove(2)
    Removed(uncovered=(1,))
    """

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._css: dict[int, None] = {}
        self._candidates: Candidates[Node] = Candidates()
        self._never: Node | None = None  # the subscriptions that no event can match
        self._unique = 0
        self._next_age = 0

    def __len__(self) -> int:
        """How many subscriptions there are, equivalent ones counted each."""
        return len(self._nodes)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._nodes

    def __iter__(self) -> Iterator[int]:
        """All ids, in the order of insertion."""
        return iter(self._nodes)

    @property
    def unique(self) -> int:
        """How many unique subscriptions there are."""
        return self._unique

    # --- changes

    def insert(self, id_: int, interest: Interest) -> Inserted:
        """Put a subscription in its place. DuplicateIdError if the id is in use."""
        id_ = check_id(id_)
        if id_ in self._nodes:
            raise DuplicateIdError(id_)
        parts = parts_of(interest)
        node, above = self._place(parts)
        if node is not None:
            inserted = Inserted((node.representative,), ())
        else:
            node = Node(parts, self._next_age)
            node.representative = id_
            self._next_age += 1
            self._unique += 1
            inserted = self._link(node, above) if parts else self._add_never(node, above)
        node.ids[id_] = interest
        self._nodes[id_] = node
        return inserted

    def remove(self, id_: int) -> Removed:
        """Take a subscription out. UnknownIdError if there is none."""
        id_ = check_id(id_)
        node = self._nodes.pop(id_, None)
        if node is None:
            raise UnknownIdError(id_)
        del node.ids[id_]
        if id_ != node.representative:
            return Removed(())
        was_uncovered = id_ in self._css
        if was_uncovered:
            del self._css[id_]
        if node.ids:
            # Looking for the oldest would pass by all those that have left before it.
            newest, interest = node.ids.popitem()
            node.ids[newest] = interest
            node.representative = newest
            return self._uncovered([node] if was_uncovered else [])
        self._unique -= 1
        if node is self._never:
            self._never = None
            return Removed(())
        return self._unlink(node)

    def _place(self, parts: Parts) -> tuple[Node | None, list[Node]]:
        """The node that says just this, or else None and its parents-to-be."""
        if not parts:
            return self._never, [] if self._never else self._narrowest()
        same = self._candidates.same(parts)
        if same is not None:
            return same, []
        above = self._minimal_over(parts)
        # An equivalent node is covered by all else that covers these parts.
        if len(above) == 1 and parts_cover(parts, above[0].parts):
            return above[0], []
        return None, above

    def _minimal_over(self, parts: Parts) -> list[Node]:
        """The narrowest nodes that cover these parts."""
        effort = self._candidates.covering_effort(parts)
        if len(self._css) < effort:
            # Of many conditions on one attribute, few are wide: it is shorter to come from those.
            found = _last_covering((self._nodes[id_] for id_ in self._css), parts, effort)
            if found is not None:
                return found
        return _minimal(self._candidates.covering(parts))

    def _link(self, node: Node, above: list[Node]) -> Inserted:
        below = self._maximal_under(node, above)
        newly_covered = [child for child in below if not child.parents]
        if self._never is not None and self._never.representative in self._css:
            newly_covered.append(self._never)
        for child in below:
            for parent in above:
                if parent in child.parents:
                    del child.parents[parent], parent.children[child]
            _connect(node, child)
        for parent in above:
            _connect(parent, node)
        self._candidates.add(node, node.parts)
        for child in newly_covered:
            del self._css[child.representative]
        if not above:
            self._css[node.representative] = None
        return Inserted(_representatives(above), _representatives(newly_covered))

    def _maximal_under(self, node: Node, above: list[Node]) -> list[Node]:
        """The children-to-be of a new node."""
        found = None
        if above:
            # They are near, most often; but the parents may cover a lot that the new node does not.
            start = min(above, key=_child_count)
            found = _first_covered(start, node, self._candidates.covered_effort(node.parts))
        if found is None:
            found = self._candidates.covered(node.parts)
        return [
            candidate
            for candidate in found
            if not any(node.covers(parent) for parent in candidate.parents)
        ]

    def _unlink(self, node: Node) -> Removed:
        self._candidates.remove(node, node.parts)
        for parent in node.parents:
            del parent.children[node]
        uncovered = []
        for child in node.children:
            del child.parents[node]
            # What leads to a parent in another way needs no edge of its own.
            detours = list(child.parents)
            for parent in node.parents:
                if not any(parent.covers(detour) for detour in detours):
                    _connect(parent, child)
            if not child.parents:
                uncovered.append(child)
        if self._never is not None and self._unique == 1:
            uncovered.append(self._never)
        return self._uncovered(uncovered)

    def _add_never(self, node: Node, above: list[Node]) -> Inserted:
        self._never = node
        if not above:
            self._css[node.representative] = None
        return Inserted(_representatives(above), ())

    def _uncovered(self, nodes: Iterable[Node]) -> Removed:
        ids = _representatives(nodes)
        self._css.update(dict.fromkeys(ids))
        return Removed(ids)

    # --- questions

    def css(self) -> KeysView[int]:
        """The covering subscription set, one id for each unique subscription: its representative.

        A live view, at no cost; copy it before changing the poset in a loop over it. The subscribers of
        each are its `peers`.
        """
        return self._css.keys()

    def covering(self, interest: Interest) -> tuple[int, ...]:
        """What covers a subscription that need not be here: what `insert` would say it is `covered_by`."""
        node, above = self._place(parts_of(interest))
        return _representatives(above if node is None else [node])

    def interest(self, id_: int) -> Interest:
        """The subscription as it was inserted under this id."""
        return self._node(id_).ids[id_]

    def representative(self, id_: int) -> int:
        """The id that stands for all that are equivalent to this one."""
        return self._node(id_).representative

    def peers(self, id_: int) -> KeysView[int]:
        """The ids of all subscriptions equivalent to this one, itself included: a live view, oldest first."""
        return self._node(id_).ids.keys()

    def parents(self, id_: int) -> tuple[int, ...]:
        """The narrowest subscriptions that cover this one; none for the CSS."""
        return _representatives(self._above(self._node(id_)))

    def children(self, id_: int) -> tuple[int, ...]:
        """The widest subscriptions that this one covers."""
        return _representatives(self._below(self._node(id_)))

    def ancestors(self, id_: int) -> tuple[int, ...]:
        """All subscriptions that cover this one, without those equivalent to it."""
        return _representatives(_reach(self._node(id_), self._above))

    def descendants(self, id_: int) -> tuple[int, ...]:
        """All subscriptions that this one covers, without those equivalent to it."""
        return _representatives(_reach(self._node(id_), self._below))

    def _node(self, id_: int) -> Node:
        node = self._nodes.get(check_id(id_))
        if node is None:
            raise UnknownIdError(id_)
        return node

    def _above(self, node: Node) -> Iterable[Node]:
        return self._narrowest() if node is self._never else node.parents

    def _below(self, node: Node) -> Iterable[Node]:
        if node.children or self._never is None or node is self._never:
            return node.children
        return [self._never]

    def _narrowest(self) -> list[Node]:
        """The nodes that cover nothing that an event could match."""
        nodes = dict.fromkeys(self._nodes.values())
        return [node for node in nodes if not node.children and node is not self._never]


def _minimal(nodes: list[Node]) -> list[Node]:
    """Those that cover none of the others."""
    minimal: list[Node] = []
    for node in nodes:
        if not any(node.covers(m) for m in minimal):
            minimal = [m for m in minimal if not m.covers(node)]
            minimal.append(node)
    return minimal


def _last_covering(roots: Iterable[Node], parts: Parts, limit: int) -> list[Node] | None:
    """The last nodes that cover `parts` on the ways down from the roots; None beyond the limit."""
    found: dict[Node, None] = {}
    passed = {root: None for root in roots if parts_cover(root.parts, parts)}
    waiting = list(passed)
    while waiting:
        node = waiting.pop()
        limit -= len(node.children)
        if limit < 0:
            return None
        covering = [child for child in node.children if parts_cover(child.parts, parts)]
        if not covering:
            found[node] = None
        for child in covering:
            if child not in passed:
                passed[child] = None
                waiting.append(child)
    return list(found)


def _first_covered(start: Node, node: Node, limit: int) -> list[Node] | None:
    """The first nodes that `node` covers on the ways down from `start`; None beyond the limit.

    The maximal ones are among them: nothing between `start` and such a one is covered.
    """
    found: dict[Node, None] = {}
    passed: dict[Node, None] = {start: None}
    waiting = [start]
    while waiting:
        children = waiting.pop().children
        limit -= len(children)
        if limit < 0:
            return None
        for child in children:
            if child in found or child in passed:
                continue
            if node.covers(child):
                found[child] = None
            else:
                passed[child] = None
                waiting.append(child)
    return list(found)


def _connect(parent: Node, child: Node) -> None:
    parent.children[child] = None
    child.parents[parent] = None


def _reach(start: Node, step: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """All nodes that repeated steps lead to."""
    reached: dict[Node, None] = {}
    waiting = [start]
    while waiting:
        for node in step(waiting.pop()):
            if node not in reached:
                reached[node] = None
                waiting.append(node)
    return list(reached)


def _representatives(nodes: Iterable[Node]) -> tuple[int, ...]:
    return tuple(node.representative for node in sorted(nodes, key=_age))


def _age(node: Node) -> int:
    return node.age


def _child_count(node: Node) -> int:
    return len(node.children)
