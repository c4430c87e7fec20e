"""The five papers that Roost is built after, and what to call them where people read.

In the sources a paper is a number and a place: `000 section 3.3`. That is short, and sorts; and says nothing
to anybody who has not read `docs/PAPERS.md`. So what is shown is `cited`.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Paper(NamedTuple):
    """One of them."""

    short: str
    authors: str
    title: str
    year: int


PAPERS = {
    "000": Paper(
        "Cheung & Jacobsen",
        "Alex King Yeung Cheung and Hans-Arno Jacobsen",
        "Publisher Relocation Algorithms for Minimizing Average Delivery Delay and System Load",
        2009,
    ),
    "001": Paper(
        "Cheung's thesis",
        "Alex K. Y. Cheung",
        "Dynamic Load Balancing in Distributed Content-based Publish/Subscribe",
        2006,
    ),
    "002": Paper(
        "Di Nitto et al.",
        "Elisabetta di Nitto, Daniel J. Dubois and Raffaella Mirandola",
        "Overlay Self-Organization for Traffic Reduction in Multi-Broker Publish-Subscribe Systems",
        2009,
    ),
    "003": Paper(
        "Amadoru et al.",
        "Dilshan Amadoru, Hasini Gunasinghe, Chamini Hasanga, Prabath Abeysekara, Vishaka Nanayakkara"
        " and Srinath Perera",
        "On the Performance of Two Topologies for a Distributed Broker Hierarchy of Publish-Subscribe"
        " Middleware",
        2010,
    ),
    "004": Paper(
        "Li et al.",
        "Ming Li, Fan Ye, Minkyong Kim, Han Chen and Hui Lei",
        "A Scalable and Elastic Publish/Subscribe Service",
        2011,
    ),
}

# A number that is part of a larger one, of a name or of a time is none of these.
CODE = re.compile(r"(?<![\w.,:#/-])(00[0-4])(?!\w|[-.,:]\d)( (?=sec|fig|graph|table|[IV]+\b))?")


def cited(text: str) -> str:
    """A text with the papers called by their authors.

    >>> cited("000 fig 5a, as in 002's table 1; 10,000 in 0.001 s")
    "Cheung & Jacobsen, fig 5a, as in Di Nitto et al.'s table 1; 10,000 in 0.001 s"
    """
    return CODE.sub(lambda found: PAPERS[found[1]].short + (", " if found[2] else ""), text)
