"""Self-organisation on-line: a broker trains, decides, and has a link moved (002 section 4.1, figure 1).

    training   counts what passes     so many messages, or so long -> decides
    asking     the anchor has room?   yes -> proposes, and has it moved      no, or no answer -> decides again
    moving     `broker.rewiring`      moved -> training      not -> decides again

Only what passes in a training is counted. To decide again is to take the next best, without what has been
refused since; if nothing is left that is good enough, a new training begins. Counters are reset when a link
of this broker has moved, whoever wanted it, so of all three brokers. Elsewhere they are not: whatever moves
there, this broker has the same brokers on each side as before.

Neighbours that train in step want each other's links at the same moment, each is refused by the next, and
without chance they would go on like that for ever. So whoever was refused trains for up to twice as long.

A neighbour whose module is off, or only observes, is no anchor: it does not say yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec import Struct

from roost.broker.arbiter import link_between
from roost.broker.module import Module, Surroundings, Visit
from roost.overlay.organising.counting import Counting, by_side, crossings
from roost.overlay.organising.deciding import Decided, Trained, decide, evidence_of, predicted_of
from roost.overlay.organising.notes import (
    Degree,
    Found,
    Rewarded,
    RoomAnswer,
    RoomRequest,
    RoomReturned,
    body_of,
    read_overlay_note,
)
from roost.overlay.organising.outcomes import Outcomes
from roost.overlay.organising.settings import OverlaySettings
from roost.overlay.rewiring import annealing
from roost.overlay.rewiring.counters import LOCAL, Rewiring

TRAINING, ASKING, MOVING = "training", "asking", "moving"
# How long the anchor may take to answer, the three to move the link, and a promise holds.
ANSWER_S, MOVE_S, PROMISE_S = 5.0, 60.0, 20.0
# Rewirings that are tried after one training.
ATTEMPTS_MAX = 4
# A burst is not what traffic is like.
TRAINING_S_MIN = 1.0


class Attempt(Struct):
    """A rewiring that is being tried."""

    number: int
    rewiring: Rewiring
    decided: Decided
    trained: Trained
    cause: str = ""  # once it is granted


class SelfOrganising(Module):
    """The overlay's self-organisation in one broker."""

    name = "overlay"
    trees_only = True  # links of a hierarchy stay where they are
    Config = OverlaySettings
    config: OverlaySettings

    def __init__(self, config: OverlaySettings | None = None) -> None:
        self.config = config or OverlaySettings()
        self.wants_behind = self.config.variant == "paper" or self.config.counts_deliveries
        self._limits = self.config.limits()
        self._terms = self.config.annealing_terms()
        self._around: Surroundings

    def started(self, around: Surroundings, now: float) -> None:
        self._around = around
        self._random = Random(f"{self.config.seed}/{around.broker}")
        self._counting = Counting(
            around,
            by_subscription=self.config.variant == "paper",
            by_delivery=self.config.counts_deliveries,
        )
        self._outcomes = Outcomes(around)
        self._promised: dict[str, float] = {}  # movers that there is room for, until when
        self._degrees: dict[str, int] = {}  # of neighbours
        self._climate = annealing.start(self._terms)
        self._came_from: dict[str, int] = {}  # messages of the training before, by side
        self._attempt: Attempt | None = None
        self._attempts = 0  # of all trainings
        self._neighbours = sorted(around.neighbours)
        # Not all brokers decide at once.
        self._train(now, stretch=self._random.uniform(0.5, 1.0))

    # --- training -------------------------------------------------------------------------------------

    def _train_out_of_step(self, now: float) -> None:
        self._train(now, stretch=self._random.uniform(1.0, 2.0))

    def _train(self, now: float, stretch: float = 1.0) -> None:
        """A new training begins."""
        self._counting.reset()
        self._since = self._over_at = now
        self._seconds_wanted = TRAINING_S_MIN * max(stretch, 1.0)
        self._objections: dict[Rewiring, str] = {}
        self._attempt = None
        adapts = self.config.variant == "roost"
        messages = self._climate.training if adapts else self.config.training_messages
        self._messages_wanted = round(messages * stretch) if self.config.training_messages else 0
        for name in (ASKING, MOVING):
            self._around.cancel_timer(name)
        if self.config.training_s:
            self._around.set_timer(TRAINING, self.config.training_s * stretch)

    def routed(self, visit: Visit, now: float) -> None:
        self._outcomes.passed(visit, now)
        if self._attempt is not None:
            return
        self._counting.passed(visit)
        enough = 0 < self._messages_wanted <= self._counting.messages
        if enough and now - self._since >= self._seconds_wanted:
            self._trained(now)

    def neighbours_changed(self, now: float) -> None:
        if self._neighbours_are_others() and (self._attempt is None or not self._attempt.cause):
            degree = len(self._neighbours)
            self._climate = annealing.after_neighbour(self._climate, degree, self._terms)
            self._train(now)

    def _neighbours_are_others(self) -> bool:
        """Whether some have come or gone: then they are told how many there are."""
        neighbours = sorted(self._around.neighbours)
        if neighbours == self._neighbours:
            return False
        # To those who know it already it is no news if as many went as came.
        as_many = len(neighbours) == len(self._neighbours)
        news = [n for n in neighbours if not as_many or n not in self._neighbours]
        self._neighbours = neighbours
        for name in neighbours:
            self._promised.pop(name, None)
        self._degrees = {n: d for n, d in self._degrees.items() if n in neighbours}
        self._came_from = {}
        self._outcomes.neighbours_are(neighbours)
        self._say_degree(news)
        return True

    def timer(self, name: str, now: float) -> None:
        attempt = self._attempt
        if name == TRAINING and attempt is None:
            self._trained(now)
        elif name == ASKING and attempt is not None:
            self._refused(f"{attempt.rewiring.anchor} does not answer", now)
        elif name == MOVING:
            self._train(now)

    # --- the decision ---------------------------------------------------------------------------------

    def _trained(self, now: float) -> None:
        """The training is over."""
        self._around.cancel_timer(TRAINING)
        self._over_at = now
        if len(self._neighbours) < 2 or not self._counting.messages:
            self._train(now)
            return
        come, _ = by_side(self._counting.passages())
        if annealing.has_changed(self._came_from, come, self._terms):
            self._climate = annealing.start(self._terms)
        self._came_from = come
        # Links may not have been up when there was something to say.
        self._say_degree([name for name in self._neighbours if name not in self._degrees])
        self._decide(now)

    def _decide(self, now: float) -> None:
        """By what was counted, and without what was refused since."""
        around, near = self._around, self._neighbours
        subscriptions = {name: len(around.subscriptions_from(name)) for name in near}
        advertisements = sum(len(around.advertisements_from(name)) for name in near)
        advertisements += sum(map(len, around.publishers().values()))
        trained = Trained(
            around.broker,
            near,
            self._counting.passages(),
            self._counting.training,
            max(self._over_at - self._since, TRAINING_S_MIN),
            subscriptions | {LOCAL: sum(map(len, around.clients().values()))},
            advertisements,
            self._degrees,
        )
        decided = decide(trained, self.config, self._climate, self._objection_to, self._random)
        if decided.rewiring is None:
            self._stay(trained, decided, now)
            return
        self._attempts += 1
        self._attempt = Attempt(self._attempts, decided.rewiring, decided, trained)
        if around.acting:
            request = RoomRequest(self._attempts, decided.rewiring.mover)
            around.tell(decided.rewiring.anchor, body_of(request), "rewiring")
            around.set_timer(ASKING, ANSWER_S)
        else:
            self._propose(now)

    def _objection_to(self, rewiring: Rewiring) -> str:
        refused = self._objections.get(rewiring, "")
        return refused or self._limits.objection(rewiring, self._degrees)

    def _stay(self, trained: Trained, decided: Decided, now: float) -> None:
        here = self._around.broker
        evidence = evidence_of(trained, self.config, self._climate, decided)
        self._around.decide("stay", here, here, evidence=evidence, predicted={})
        if self._objections:
            self._train_out_of_step(now)
        else:
            self._learn(None)
            self._train(now)

    def _learn(self, rewired: float | None) -> None:
        """Of Roost's own: how long to train from now on, and what is good enough."""
        degree = len(self._neighbours)
        self._climate = annealing.after_training(self._climate, rewired, degree, self._terms)

    # --- the rewiring, at the middle ------------------------------------------------------------------

    def _propose(self, now: float) -> None:
        attempt = self._attempt
        assert attempt is not None
        around, decided, trained = self._around, attempt.decided, attempt.trained
        mover, anchor = attempt.rewiring.mover, attempt.rewiring.anchor
        link = link_between(around.broker, mover)
        cause = around.propose(
            "rewiring",
            "rewire",
            link,
            anchor,
            subjects=[link],
            evidence=evidence_of(trained, self.config, self._climate, decided),
            predicted=predicted_of(trained, self.config, decided.choice),
        )
        if cause is not None:
            attempt.cause = cause
            around.set_timer(MOVING, MOVE_S)
            around.rewire(mover, anchor, cause)
        elif around.acting:
            self._give_room_back(attempt)
            self._refused(f"the lease of {link} was refused", now)
        else:
            self._train(now)

    def _refused(self, why: str, now: float) -> None:
        """The next best, if there is one."""
        attempt = self._attempt
        assert attempt is not None
        for name in (ASKING, MOVING):
            self._around.cancel_timer(name)
        self._attempt = None
        self._objections[attempt.rewiring] = why
        if len(self._objections) < ATTEMPTS_MAX and self._neighbours == attempt.trained.neighbours:
            self._decide(now)
        else:
            self._train_out_of_step(now)

    def _give_room_back(self, attempt: Attempt) -> None:
        returned = RoomReturned(attempt.rewiring.mover)
        self._around.tell(attempt.rewiring.anchor, body_of(returned), "rewiring")

    def rewired(self, mover: str, anchor: str, objection: str, now: float) -> None:
        attempt = self._attempt
        if attempt is None or not attempt.cause or attempt.rewiring[1:] != (mover, anchor):
            return  # somebody else wanted it
        if objection:
            self._give_room_back(attempt)
            self._refused(objection, now)
            return
        promise = self._promise(attempt)
        if promise.messages:
            self._around.tell(anchor, body_of(promise), attempt.cause, behind=True)
        self._learn(attempt.decided.choice.utility)
        self._neighbours_are_others()
        self._train(now)

    def _promise(self, attempt: Attempt) -> Rewarded:
        trained = attempt.trained
        messages, crossed = crossings(trained.passages, attempt.rewiring)
        predicted = predicted_of(trained, self.config, attempt.decided.choice)
        return Rewarded(attempt.cause, attempt.rewiring.mover, messages, crossed, **predicted)

    # --- what neighbours say --------------------------------------------------------------------------

    def told(self, neighbour: str, body: bytes, now: float) -> None:
        match read_overlay_note(neighbour, body):
            case RoomRequest() as request:
                objection = self._room_for(request.mover, neighbour, now)
                answer = RoomAnswer(request.number, objection)
                self._around.tell(neighbour, body_of(answer), "rewiring")
            case RoomAnswer() as answer:
                self._answered(neighbour, answer, now)
            case RoomReturned() as returned:
                self._promised.pop(returned.mover, None)
            case Rewarded() as promise:
                self._outcomes.watch(neighbour, promise, now)
            case Found() as found:
                self._climate = annealing.after_outcome(
                    self._climate, found.saves, found.saved, self._terms
                )
            case Degree() as degree:
                if neighbour not in self._degrees:
                    self._say_degree([neighbour])
                self._degrees[neighbour] = degree.neighbours

    def _say_degree(self, to: Sequence[str]) -> None:
        for name in to:
            self._around.tell(name, body_of(Degree(len(self._neighbours))), "neighbours")

    def _room_for(self, mover: str, middle: str, now: float) -> str:
        """Of the anchor: what speaks against another neighbour."""
        here = self._around.broker
        if not self._around.acting:
            return f"{here} only observes"
        self._promised = {name: until for name, until in self._promised.items() if until > now}
        degree = len({*self._neighbours, *self._promised} - {mover})
        objection = self._limits.objection(Rewiring(middle, mover, here), {here: degree})
        if not objection:
            objection = self._around.objection_to("rewiring", "anchor", [middle], mover)
        if not objection:
            self._promised[mover] = now + PROMISE_S
        return objection

    def _answered(self, anchor: str, answer: RoomAnswer, now: float) -> None:
        attempt = self._attempt
        if attempt is None or attempt.cause or attempt.number != answer.number:
            return
        if attempt.rewiring.anchor != anchor:
            return
        self._around.cancel_timer(ASKING)
        if answer.objection:
            self._refused(answer.objection, now)
        else:
            self._propose(now)
