"""Insertion: the children of a tree node, from one child, its position as bits, and the other children."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prover.circuits.constraint_system import ONE, ConstraintSystem, Variable, combination, single

#: rows, and allocations, by arity
INSERTION_ROWS = {2: 2, 4: 8, 8: 22}


def pick(cs: ConstraintSystem, condition: Variable, x: Variable, y: Variable) -> Variable:
    """x if condition else y: (y - x) * condition = y - z."""
    z = cs.alloc()
    cs.enforce(combination((y, 1), (x, -1)), single(condition), combination((y, 1), (z, -1)))
    return z


def insert(
    cs: ConstraintSystem, element: Variable, bits: Sequence[Variable], siblings: Sequence[Variable]
) -> tuple[Variable, ...]:
    """The siblings in order with `element` at the position of `bits` (least significant first)."""
    gadgets: dict[int, Callable[..., tuple[Variable, ...]]] = {1: _insert_2, 3: _insert_4, 7: _insert_8}
    if len(siblings) not in gadgets or len(siblings) + 1 != 1 << len(bits):
        raise ValueError(f"no insertion among {len(siblings)} siblings by {len(bits)} bits")
    return gadgets[len(siblings)](cs, element, *bits, *siblings)


def _insert_2(cs: ConstraintSystem, a: Variable, b0: Variable, b: Variable) -> tuple[Variable, ...]:
    return pick(cs, b0, b, a), pick(cs, b0, a, b)


def _insert_4(cs: ConstraintSystem, a: Variable, b0: Variable, b1: Variable, *rest: Variable) -> tuple[Variable, ...]:
    b, c, d = rest
    p0 = pick(cs, b1, b, pick(cs, b0, b, a))
    p1 = pick(cs, b1, c, pick(cs, b0, a, b))
    p2 = pick(cs, b1, pick(cs, b0, d, a), c)
    p3 = pick(cs, b1, pick(cs, b0, a, d), d)
    return p0, p1, p2, p3


def _insert_8(
    cs: ConstraintSystem, a: Variable, b0: Variable, b1: Variable, b2: Variable, *rest: Variable
) -> tuple[Variable, ...]:
    b, c, d, e, f, g, h = rest
    neither = cs.alloc()
    cs.enforce({ONE: 1, b0: -1}, {ONE: 1, b1: -1}, single(neither))
    both = cs.alloc()
    cs.enforce(single(b0), single(b1), single(both))
    p0 = pick(cs, b2, b, pick(cs, neither, a, b))
    p1 = pick(cs, b2, c, pick(cs, b1, c, pick(cs, b0, a, b)))
    p2 = pick(cs, b2, d, pick(cs, b1, pick(cs, b0, d, a), c))
    p3 = pick(cs, b2, e, pick(cs, both, a, d))
    p4 = pick(cs, b2, pick(cs, neither, a, f), e)
    p5 = pick(cs, b2, pick(cs, b1, g, pick(cs, b0, a, f)), f)
    p6 = pick(cs, b2, pick(cs, b1, pick(cs, b0, h, a), g), g)
    p7 = pick(cs, b2, pick(cs, both, a, h), h)
    return p0, p1, p2, p3, p4, p5, p6, p7
