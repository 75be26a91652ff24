"""Boolean variables."""

from __future__ import annotations

from prover.circuits.constraint_system import ONE, ZERO, ConstraintSystem, Variable


def allocate_bit(cs: ConstraintSystem) -> Variable:
    """A new bit b with the row (1 - b) * b = 0."""
    bit = cs.alloc()
    cs.enforce({ONE: 1, bit: -1}, {bit: 1}, ZERO)
    return bit


def allocate_bits(cs: ConstraintSystem, count: int) -> tuple[Variable, ...]:
    """`count` new bits, least significant first."""
    return tuple(allocate_bit(cs) for _ in range(count))
