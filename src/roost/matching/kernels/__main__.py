"""`python -m roost.matching.kernels` compiles all kernels, so that nobody has to wait for it later.

It takes half a minute the first time and half a second once they are on disk.
"""

from __future__ import annotations

import msgspec
import numpy as np

from roost.language import Event, parse_filter
from roost.matching.index import Index


def compile_all() -> None:
    """Makes an index do everything that it can do."""
    index = Index()
    values = np.arange(100.0)
    index.add_columns(np.arange(100), [("x", ">", values)])
    index.add_columns(np.arange(100, 200), [("x", ">", values), ("y", "<", values)])
    index.add(200, parse_filter("x > 1"))
    index.add(201, parse_filter("x > 1 and y > 1"))
    event = Event({"x": 1.5, "y": 2.5})
    octets = msgspec.msgpack.encode(event.attributes)
    found = len(index.match(event))
    assert found == len(index.match_batch([event])[1])
    assert found == len(index.match_bytes(octets))
    assert found == len(index.match_spans(octets, [0, len(octets)])[1])
    for id_ in range(202):
        index.remove(id_)


if __name__ == "__main__":
    compile_all()
