"""Booleans: constants, bits and their complements, and what logic makes of them.

Constants fold, so no row is spent on what is known when the circuit is built. Every allocation here is a bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from prover.circuits.constraint_system import ONE, ZERO, ConstraintSystem, Variable, combination, single


class Boolean(NamedTuple):
    """A bit, or its complement when `negated`; without a variable the constant 0, or 1 when `negated`."""

    variable: Variable | None
    negated: bool = False

    @property
    def is_constant(self) -> bool:
        return self.variable is None


FALSE: Final = Boolean(None)
TRUE: Final = Boolean(None, True)


def constant(value: int) -> Boolean:
    """The constant 0 or 1."""
    return TRUE if value else FALSE


def booleans(bits: Iterable[Variable]) -> tuple[Boolean, ...]:
    """Bits as Booleans."""
    return tuple(map(Boolean, bits))


def negation(bit: Boolean) -> Boolean:
    """1 - bit; no row."""
    return Boolean(bit.variable, not bit.negated)


def terms(bit: Boolean, factor: int = 1) -> tuple[tuple[Variable, int], ...]:
    """The terms of factor * bit."""
    if bit.variable is None:
        return ((ONE, factor),) if bit.negated else ()
    return ((ONE, factor), (bit.variable, -factor)) if bit.negated else ((bit.variable, factor),)


def allocate_bit(cs: ConstraintSystem) -> Variable:
    """A new bit b with the row (1 - b) * b = 0."""
    bit = cs.alloc_bit()
    cs.enforce({ONE: 1, bit: -1}, {bit: 1}, ZERO)
    return bit


def allocate_bits(cs: ConstraintSystem, count: int) -> tuple[Variable, ...]:
    """`count` new bits, least significant first."""
    return tuple(allocate_bit(cs) for _ in range(count))


def xor(cs: ConstraintSystem, a: Boolean, b: Boolean) -> Boolean:
    """a xor b: 2x * y = x + y - r, where of a bit and a complement the bit is x."""
    if a.variable is None:
        return negation(b) if a.negated else b
    if b.variable is None:
        return negation(a) if b.negated else a
    x, y = (b.variable, a.variable) if a.negated and not b.negated else (a.variable, b.variable)
    result = cs.alloc_bit()
    cs.enforce({x: 2}, single(y), combination((x, 1), (y, 1), (result, -1)))
    return Boolean(result, a.negated != b.negated)


def conjunction(cs: ConstraintSystem, a: Boolean, b: Boolean) -> Boolean:
    """a and b: a * b = r, where of a bit and a complement the bit is on A."""
    if a.variable is None:
        return b if a.negated else FALSE
    if b.variable is None:
        return a if b.negated else FALSE
    x, y = (b, a) if a.negated and not b.negated else (a, b)
    result = cs.alloc_bit()
    cs.enforce(dict(terms(x)), dict(terms(y)), single(result))
    return Boolean(result)


def choose(cs: ConstraintSystem, a: Boolean, b: Boolean, c: Boolean) -> Boolean:
    """b if a else c: a * (b - c) = r - c."""
    if a == FALSE or (a == TRUE and b.is_constant and c.is_constant):
        return b if a.negated else c
    if b == FALSE:
        return conjunction(cs, negation(a), c)
    if c == FALSE:
        return conjunction(cs, a, b)
    if c == TRUE:
        return negation(conjunction(cs, a, negation(b)))
    if b == TRUE:
        return negation(conjunction(cs, negation(a), negation(c)))
    result = cs.alloc_bit()
    minus_c = terms(c, -1)
    cs.enforce(combination(*terms(b), *minus_c), dict(terms(a)), combination((result, 1), *minus_c))
    return Boolean(result)


def majority(cs: ConstraintSystem, a: Boolean, b: Boolean, c: Boolean) -> Boolean:
    """What two of three are: (2bc - b - c) * a = bc - r. The result is allocated before bc, bc has its row first."""
    folded = _folded_majority(cs, a, b, c)
    if folded is not None:
        return folded
    result = cs.alloc_bit()
    both = conjunction(cs, b, c)
    a_side = combination(*terms(both, 2), *terms(b, -1), *terms(c, -1))
    cs.enforce(a_side, dict(terms(a)), combination(*terms(both), (result, -1)))
    return Boolean(result)


def _folded_majority(cs: ConstraintSystem, a: Boolean, b: Boolean, c: Boolean) -> Boolean | None:
    """The majority when one of the three is constant: 0 is looked for from a to c, then 1 from c to a."""
    for known, x, y in ((a, b, c), (b, a, c), (c, a, b)):
        if known == FALSE:
            return conjunction(cs, x, y)
    for known, x, y in ((c, a, b), (b, a, c), (a, b, c)):
        if known == TRUE:
            return negation(conjunction(cs, negation(x), negation(y)))
    return None
