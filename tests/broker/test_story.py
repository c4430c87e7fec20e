"""Stories: who said what to whom, and why, of a publication, a client or a request."""

from __future__ import annotations

from roost.broker import events as ev
from roost.broker.messages import Ack
from roost.broker.story import Chapter, Storybook
from tests.broker.kit import Federation


def figure_2_2() -> Federation:
    """001 figure 2.2: B1 - B2, B2 - B3, B2 - B4; a > 1 at B1, a > 5 at B4, a > 9 at B3."""
    federation = Federation(("B1", "B2"), ("B2", "B3"), ("B2", "B4"))
    federation.client("P", "B1")
    federation.advertise("P", "a > 1")
    federation.settle()
    for name, broker, text in (("S1", "B4", "a > 5"), ("S2", "B3", "a > 9")):
        federation.client(name, broker)
        federation.subscribe(name, text)
        federation.settle()
    return federation


def outline(chapters: list[Chapter]) -> list[tuple[str, str, str, str]]:
    return [(c.who, c.to, c.verb, c.subject) for c in chapters]


def test_the_story_of_a_publication() -> None:
    federation = figure_2_2()
    federation.publish("P", a=10)
    federation.settle()
    chapters = federation.storybook.story("P:1")
    assert sorted(outline(chapters)) == [
        ("B1", "B2", "publish", "P:1"),
        ("B2", "B3", "publish", "P:1"),
        ("B2", "B4", "publish", "P:1"),
        ("B3", "S2", "deliver", "P:1"),
        ("B4", "S1", "deliver", "P:1"),
        ("P", "B1", "publish", "P:1"),
    ]
    hops = {(c.who, c.to): c.hops for c in chapters}
    assert (hops["P", "B1"], hops["B1", "B2"], hops["B2", "B3"], hops["B3", "S2"]) == (0, 1, 2, 2)


def test_what_followed_from_another_clients_unsubscription() -> None:
    """001 section 2.1.3: two brokers away, S2's subscription is sent because S1 unsubscribed."""
    federation = figure_2_2()
    federation.unsubscribe("S1", "a > 5")
    federation.settle()
    story = federation.storybook.story("S1/1")
    assert outline(story)[-4:] == [
        ("S1", "B4", "unsubscribe", "S1/1"),
        ("B4", "B2", "unsubscribe", "S1/1"),
        ("B2", "B1", "subscribe", "S2/1"),
        ("B2", "B1", "unsubscribe", "S1/1"),
    ]
    assert story[-2].cause == "S1 unsubscribes S1/1"
    # It is part of the stories of both clients.
    assert story[-2] in federation.storybook.story("S2")
    assert story[-2] in federation.storybook.story("S1")


def test_the_story_of_a_client() -> None:
    federation = figure_2_2()
    federation.publish("P", a=10)
    federation.redirect("S2", "B1")
    federation.settle()
    told = outline(federation.storybook.story("S2"))
    wanted = [
        ("S2", "B3", "subscribe", "S2/1"),
        ("B3", "B2", "subscribe", "S2/1"),
        ("B3", "S2", "redirect", "B1"),
        ("S2", "B1", "subscribe", "S2/2"),
        ("S2", "B3", "hand over", ""),
        ("B3", "B2", "unsubscribe", "S2/1"),
        ("B3", "S2", "ended", ""),
    ]
    assert [line for line in told if line in wanted] == wanted


def test_the_story_of_a_client_does_not_tell_of_one_with_a_longer_name() -> None:
    federation = Federation(("B1", "B2"))
    for name in ("S1", "S10"):
        federation.client(name, "B1")
        federation.subscribe(name, "a > 0")
    federation.settle()
    assert {c.who for c in federation.storybook.story("S1")} == {"S1"}


def test_why_a_session_is_over() -> None:
    federation = figure_2_2()
    federation.severed.add(frozenset(("S1", "B4")))
    federation.cut("S1", "B4")
    federation.advance(100.0)
    causes = {c.cause for c in federation.storybook.story("S1") if c.verb == "unsubscribe"}
    assert causes == {"session of S1 is over: it stayed away too long"}


def test_a_link_is_a_cause() -> None:
    federation = figure_2_2()
    federation.handle("B2", ev.LinkRemoved("B4", "the operator parts B2 and B4"))
    federation.settle()
    (last,) = [c for c in federation.storybook.story("S1/1") if c.verb == "unsubscribe"]
    assert last.cause == "the operator parts B2 and B4"


def test_chapters_read_well() -> None:
    chapter = Chapter(1.5, "B2", "B1", "unsubscribe", "S1/1", "S1/1", "S1 unsubscribes S1/1")
    assert str(chapter) == (
        "     1.500      B2 -> B1      unsubscribe S1/1   (S1 unsubscribes S1/1)"
    )


def test_acknowledgements_are_no_story() -> None:
    storybook = Storybook()
    storybook.said(0.0, "B1", "B2", Ack(1, 1))
    assert not storybook.chapters


def test_the_oldest_is_forgotten_first() -> None:
    federation = figure_2_2()
    short = Storybook(chapters_max=2)
    for chapter in federation.storybook.chapters:
        short.chapters.append(chapter)
    assert list(short.chapters) == list(federation.storybook.chapters)[-2:]
