"""Proof of retrievability: a Merkle path over Poseidon trees, its leaf index a public input."""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits import poseidon
from prover.circuits.boolean import allocate_bits
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.insertion import INSERTION_ROWS, RowSelector, insert
from prover.circuits.num import enforce_equal, inputize, pack_into_inputs


@dataclass(frozen=True, slots=True)
class PathToRoot:
    """A path whose leaf is allocated here, and whose root is the caller's variable (then it stays private).

    Without that variable the root is allocated too, after the leaf index became an input, and is private or public.
    `arities` are those of the levels from the leaf up.
    """

    arities: tuple[int, ...]
    private: bool = True

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[()]:
        node = cs.alloc()
        path: tuple[Variable, ...] = ()
        for arity in self.arities:
            bits, node = _level(cs, node, arity)
            path += bits
        pack_into_inputs(cs, path)
        root = variables[0] if variables else cs.alloc()
        enforce_equal(cs, node, root)
        if not self.private:
            inputize(cs, root)
        return ()


def _level(cs: ConstraintSystem, node: Variable, arity: int) -> tuple[tuple[Variable, ...], Variable]:
    """The bits of one level's index, and the parent of `node`."""
    bits = allocate_bits(cs, index_bits(arity))
    siblings = [cs.alloc() for _ in range(arity - 1)]
    children = insert(RowSelector(cs), node, bits, siblings)
    (parent,) = cs.instance(poseidon.PoseidonHash(arity), *children)
    return bits, parent


def index_bits(arity: int) -> int:
    """Bits of a position among `arity` children."""
    return arity.bit_length() - 1


def level_rows(arity: int) -> int:
    """Rows of one level."""
    return index_bits(arity) + INSERTION_ROWS[arity] + poseidon.num_rows(arity)


def num_rows(arities: tuple[int, ...]) -> int:
    """Rows of a path with a private root."""
    return sum(map(level_rows, arities)) + 2
