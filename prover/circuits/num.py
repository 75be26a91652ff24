"""Field elements: public inputs, equality, sums, and bits packed and unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prover.circuits.boolean import allocate_bits
from prover.circuits.constraint_system import UNIT, ZERO, Combination, ConstraintSystem, Variable, combination, single

#: bits that always fit into a field element
CAPACITY = 254
#: bits of a canonical field element
NUM_BITS = 255


def inputize(cs: ConstraintSystem, variable: Variable) -> Variable:
    """A new public input equal to `variable`: input * 1 = variable."""
    public = cs.alloc_input()
    cs.enforce(single(public), UNIT, single(variable))
    return public


def allocate_public(cs: ConstraintSystem) -> Variable:
    """A new variable, and a public input that is equal to it; the variable."""
    number = cs.alloc()
    inputize(cs, number)
    return number


def enforce_equal(cs: ConstraintSystem, left: Variable, right: Variable) -> None:
    """left * 1 = right."""
    cs.enforce(single(left), UNIT, single(right))


def add(cs: ConstraintSystem, left: Variable, right: Variable) -> Variable:
    """s with (left + right) * 1 = s."""
    return allocate_sum(cs, combination((left, 1), (right, 1)))


def multiply(cs: ConstraintSystem, left: Variable, right: Variable) -> Variable:
    """p with left * right = p."""
    product = cs.alloc()
    cs.enforce(single(left), single(right), single(product))
    return product


def allocate_sum(cs: ConstraintSystem, terms: Combination) -> Variable:
    """s with terms * 1 = s."""
    total = cs.alloc()
    cs.enforce(terms, UNIT, single(total))
    return total


def packed(bits: Iterable[Variable]) -> dict[Variable, int]:
    """The combination sum 2^i bit_i of distinct bits."""
    return {bit: 1 << i for i, bit in enumerate(bits)}


def pack_bits(cs: ConstraintSystem, bits: Sequence[Variable]) -> Variable:
    """n with (sum 2^i bit_i) * 1 = n; only the first 254 bits count."""
    return allocate_sum(cs, packed(bits[:CAPACITY]))


def pack_into_inputs(cs: ConstraintSystem, bits: Sequence[Variable]) -> None:
    """A new public input for each 254 bits: (sum 2^i bit_i) * 1 = input."""
    for start in range(0, len(bits), CAPACITY):
        public = cs.alloc_input()
        cs.enforce(packed(bits[start : start + CAPACITY]), UNIT, single(public))


def to_bits(cs: ConstraintSystem, number: Variable) -> tuple[Variable, ...]:
    """The 255 bits of a number, least significant first: 0 * 0 = sum 2^i bit_i - number.

    The bits may be those of number + r when that is below 2^255, as in the original.
    """
    bits = allocate_bits(cs, NUM_BITS)
    cs.enforce(ZERO, ZERO, {**packed(bits), number: -1})
    return bits


def to_allocated_bits(cs: ConstraintSystem, number: Variable) -> tuple[Variable, ...]:
    """The same bits by the row (sum 2^i bit_i) * 1 = number, which the empty-sector update has instead."""
    bits = allocate_bits(cs, NUM_BITS)
    cs.enforce(packed(bits), UNIT, single(number))
    return bits
