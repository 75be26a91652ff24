"""Field elements: public inputs, equality, packed bits."""

from __future__ import annotations

from collections.abc import Sequence

from prover.circuits.constraint_system import UNIT, ConstraintSystem, Variable, single

#: bits that always fit into a field element
CAPACITY = 254


def inputize(cs: ConstraintSystem, variable: Variable) -> Variable:
    """A new public input equal to `variable`: input * 1 = variable."""
    public = cs.alloc_input()
    cs.enforce(single(public), UNIT, single(variable))
    return public


def enforce_equal(cs: ConstraintSystem, left: Variable, right: Variable) -> None:
    """left * 1 = right."""
    cs.enforce(single(left), UNIT, single(right))


def pack_into_inputs(cs: ConstraintSystem, bits: Sequence[Variable]) -> None:
    """A new public input for each 254 bits: (sum 2^i bit_i) * 1 = input."""
    for start in range(0, len(bits), CAPACITY):
        public = cs.alloc_input()
        packed = {bit: 1 << i for i, bit in enumerate(bits[start : start + CAPACITY])}
        cs.enforce(packed, UNIT, single(public))
