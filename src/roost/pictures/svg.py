"""What all pictures share: the sheet, its ink, and text that XML can carry.

An SVG document is written by hand, so that any browser and document shows it, without a script or a network.
Colours are those of Okabe and Ito: told apart by any eyes, and most of them as dark and light in grey print.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

FONT, FONT_SIZE = "Helvetica, Arial, DejaVu Sans, sans-serif", 12
INK, PAPER = "#222222", "#FFFFFF"
BLUE, ORANGE, VERMILION = "#0072B2", "#E69F00", "#D55E00"


def document(
    width: float, height: float, title: str, lines: Iterable[str], *, shown: float = 1.0
) -> str:
    """A sheet of this size with these elements on it; `shown` says how large it comes up at first."""
    size = f'width="{coord(width * shown)}" height="{coord(height * shown)}"'
    whole = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
        f' viewBox="0 0 {coord(width)} {coord(height)}" role="img"'
        f' font-family="{FONT}" font-size="{FONT_SIZE}">',
        f"<title>{escaped(title)}</title>",
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        *lines,
        "</svg>",
    ]
    return "\n".join(whole) + "\n"


def text(
    x: float,
    y: float,
    words: str,
    size: float = FONT_SIZE,
    anchor: str = "start",
    ink: str = INK,
    *,
    bold: bool = False,
) -> str:
    """Words on the sheet; `y` is the line that they stand on."""
    font = "" if size == FONT_SIZE else f' font-size="{coord(size)}"'
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{coord(x)}" y="{coord(y)}"{font}{place}{weight} fill="{ink}">'
        f"{escaped(words)}</text>"
    )


def escaped(words: str) -> str:
    """Text that XML can carry."""
    return escape("".join(sign if sign.isprintable() else "\ufffd" for sign in words))


def coord(value: float) -> str:
    """A coordinate: one decimal, the same on every machine."""
    words = f"{value:.1f}".removesuffix(".0")
    return "0" if words == "-0" else words
