"""Insertion: the children of a tree node, from one child, its position as bits, and the other children.

The gadget is written over a `Selector`, so that recording its rows and computing its values cannot fall apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prover.circuits.constraint_system import ONE, ConstraintSystem, Variable, combination, single

#: rows, and allocations, by arity
INSERTION_ROWS = {2: 2, 4: 8, 8: 22}


class Selector(Protocol):
    """What insertion is made of; each call allocates its result, whatever an integer stands for."""

    def pick(self, condition: int, x: int, y: int) -> int:
        """x if condition else y."""

    def neither(self, a: int, b: int) -> int:
        """not a and not b."""

    def both(self, a: int, b: int) -> int:
        """a and b."""


class RowSelector:
    """Allocates variables and records a row for each."""

    def __init__(self, cs: ConstraintSystem) -> None:
        self._cs = cs

    def pick(self, condition: Variable, x: Variable, y: Variable) -> Variable:
        """z with (y - x) * condition = y - z."""
        z = self._cs.alloc()
        self._cs.enforce(combination((y, 1), (x, -1)), single(condition), combination((y, 1), (z, -1)))
        return z

    def neither(self, a: Variable, b: Variable) -> Variable:
        """z with (1 - a) * (1 - b) = z."""
        z = self._cs.alloc()
        self._cs.enforce({ONE: 1, a: -1}, {ONE: 1, b: -1}, single(z))
        return z

    def both(self, a: Variable, b: Variable) -> Variable:
        """z with a * b = z."""
        z = self._cs.alloc()
        self._cs.enforce(single(a), single(b), single(z))
        return z


def insert(select: Selector, element: int, bits: Sequence[int], siblings: Sequence[int]) -> tuple[int, ...]:
    """The siblings in order with `element` at the position of `bits` (least significant first)."""
    if len(siblings) + 1 not in INSERTION_ROWS or len(siblings) + 1 != 1 << len(bits):
        raise ValueError(f"no insertion among {len(siblings)} siblings by {len(bits)} bits")
    return (_insert_2, _insert_4, _insert_8)[len(bits) - 1](select, element, bits, siblings)


def _insert_2(select: Selector, a: int, bits: Sequence[int], siblings: Sequence[int]) -> tuple[int, ...]:
    (b0,), (b,) = bits, siblings
    return select.pick(b0, b, a), select.pick(b0, a, b)


def _insert_4(select: Selector, a: int, bits: Sequence[int], siblings: Sequence[int]) -> tuple[int, ...]:
    (b0, b1), (b, c, d) = bits, siblings
    pick = select.pick
    return (
        pick(b1, b, pick(b0, b, a)),
        pick(b1, c, pick(b0, a, b)),
        pick(b1, pick(b0, d, a), c),
        pick(b1, pick(b0, a, d), d),
    )


def _insert_8(select: Selector, a: int, bits: Sequence[int], siblings: Sequence[int]) -> tuple[int, ...]:
    (b0, b1, b2), (b, c, d, e, f, g, h) = bits, siblings
    pick = select.pick
    neither, both = select.neither(b0, b1), select.both(b0, b1)
    return (
        pick(b2, b, pick(neither, a, b)),
        pick(b2, c, pick(b1, c, pick(b0, a, b))),
        pick(b2, d, pick(b1, pick(b0, d, a), c)),
        pick(b2, e, pick(both, a, d)),
        pick(b2, pick(neither, a, f), e),
        pick(b2, pick(b1, g, pick(b0, a, f)), f),
        pick(b2, pick(b1, pick(b0, h, a), g), g),
        pick(b2, pick(both, a, h), h),
    )
