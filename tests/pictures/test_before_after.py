"""Two trees side by side, and the table below them."""

from __future__ import annotations

from xml.etree import ElementTree

from roost.overlay.topologies import balanced_tree
from roost.pictures.before_after import Half, Row, picture

TREE = balanced_tree(15)


def test_a_picture_of_both() -> None:
    groups = {"B3": 0, "B7": 0, "P1": 0}
    half = Half({frozenset(("B0", "B1")): 320.0}, {"P1": "B11"}, {"B3": 19, "B7": 1})
    moved = Half({}, {"P1": "B3"}, {"B3": 19, "B7": 1})
    drawn = picture(
        TREE, groups, {"before": half, "after": moved}, [Row("a & b", "1", "2", "")], "<it>", "."
    )
    words = [x.text for x in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("P1") == words.count("B11") == 2
    assert words.count("320") == 1
    assert "a & b" in words
