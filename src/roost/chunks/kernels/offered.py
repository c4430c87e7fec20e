"""Whether an event is one that its client has advertised: the demands of `layout.OFFER`, one by one."""

from __future__ import annotations

import numpy as np

from roost.chunks.kernels.layout import (
    AT_MOST,
    DEMAND,
    EQUAL,
    LESS,
    MORE_THAN,
    NUMBER_KIND,
    PRESENT,
    STRING_KIND,
    V_BITS,
    V_EVENT,
    V_KIND,
    V_LENGTH,
    VALUE_ROW,
)
from roost.chunks.kernels.words import Bytes, compared, lean
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import peek
from roost.matching.kernels.octets import as_float


@lean
def _holds(op: int, order: int) -> bool:
    if op == EQUAL:
        return order == 0
    if op == LESS:
        return order < 0
    if op == AT_MOST:
        return order <= 0
    if op == MORE_THAN:
        return order > 0
    return order >= 0


@lean
def _meets(offer: Cells, at: int, values: Cells, event: int, b: Bytes, text: Bytes) -> bool:
    """Whether the event meets one demand."""
    row = peek(offer, at) * VALUE_ROW
    op, bits, n = peek(offer, at + 1), peek(offer, at + 2), peek(offer, at + 3)
    if peek(values, row + V_EVENT) != event:
        return False
    kind, value = peek(values, row + V_KIND), peek(values, row + V_BITS)
    if op == PRESENT:
        if kind != NUMBER_KIND:
            return True
        x = as_float(value)
        return x == x
    if n >= 0:
        if kind != STRING_KIND:
            return False
        return _holds(op, compared(b, value, peek(values, row + V_LENGTH), text, bits, n))
    if kind != NUMBER_KIND:
        return False
    x, constant = as_float(value), as_float(bits)
    if x != x or constant != constant:
        return False
    return _holds(op, np.int64(x > constant) - np.int64(x < constant))


@lean
def offered(offer: Cells, values: Cells, event: int, b: Bytes, text: Bytes) -> bool:
    """Whether an advertisement of the client covers the event."""
    at = np.int64(1)
    for _ in range(peek(offer, 0)):
        demands = peek(offer, at)
        at += 1
        met = True
        for d in range(demands):
            if not _meets(offer, at + d * DEMAND, values, event, b, text):
                met = False
                break
        if met:
            return True
        at += demands * DEMAND
    return False
