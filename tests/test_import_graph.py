"""The core is no knot: no module of `broker/` imports another in a circle, and none holds the broker."""

from __future__ import annotations

import re

from tests.import_graph import (
    MANUAL,
    PACKAGE,
    cycle_of,
    drawn,
    graph_of,
    layers_of,
    picture,
    sources_of,
)


def test_no_cycles_types_included() -> None:
    assert cycle_of(graph_of(PACKAGE, sources_of(PACKAGE))) == []


def test_no_collaborator_holds_the_broker() -> None:
    holders = [
        path
        for path, source in sources_of(PACKAGE).items()
        if not path.endswith("/machines.py")  # which makes one, and holds none
        and re.search(r"\b_broker\b|\bbroker: Broker\b|import Broker\b", source)
    ]
    assert holders == []


def test_the_picture_is_as_it_is() -> None:
    text = MANUAL.read_text("utf-8")
    assert text == drawn(text), "draw it again: .venv/bin/python -m tests.import_graph"


def test_cycles_are_found_also_of_types() -> None:
    sources = {
        "src/roost/broker/a.py": "from roost.broker.b import B\n",
        "src/roost/broker/b.py": "if TYPE_CHECKING:\n    from roost.broker import a\n",
        "src/roost/broker/c.py": "from roost.broker.a import A\nimport roost.language.event\n",
    }
    assert set(cycle_of(graph_of(PACKAGE, sources))) == {"roost.broker.a", "roost.broker.b"}


def test_layers_stand_on_what_they_import() -> None:
    sources = {
        "src/roost/broker/a.py": "",
        "src/roost/broker/b.py": "from roost.broker.a import A\n",
        "src/roost/broker/c.py": "from roost.broker import a, b\n",
    }
    graph = graph_of(PACKAGE, sources)
    assert layers_of(graph) == [["roost.broker.a"], ["roost.broker.b"], ["roost.broker.c"]]
    assert "| 2 | `c` | a, b |" in picture(graph)
