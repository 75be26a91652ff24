"""Unsigned 64-bit numbers as bits."""

from __future__ import annotations

from collections.abc import Sequence

from prover.circuits.boolean import Boolean, allocate_bits, booleans
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.num import pack_into_inputs

BITS = 64


def allocate(cs: ConstraintSystem) -> tuple[Variable, ...]:
    """64 new bits, least significant first."""
    return allocate_bits(cs, BITS)


def pack_into_input(cs: ConstraintSystem, bits: Sequence[Variable]) -> None:
    """A new public input equal to the number."""
    pack_into_inputs(cs, bits)


def big_endian(bits: Sequence[Variable]) -> tuple[Boolean, ...]:
    """The number as SHA-256 reads it: most significant bit first."""
    return booleans(reversed(bits))
