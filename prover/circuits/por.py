"""Proof of retrievability: a Merkle path from a leaf to a root, over Poseidon or SHA-256 trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prover.circuits import poseidon
from prover.circuits.boolean import allocate_bits
from prover.circuits.constraint_system import ConstraintSystem, Gadget, Variable
from prover.circuits.insertion import INSERTION_ROWS, RowSelector, insert
from prover.circuits.num import enforce_equal, inputize, pack_into_inputs
from prover.circuits.sha256 import Sha256Pair


class Hasher(StrEnum):
    """What makes a node of its children."""

    POSEIDON = "poseidon"
    SHA256 = "sha256"

    def gadget(self, arity: int) -> Gadget:
        """The node of `arity` children; SHA-256 trees are binary."""
        if self is Hasher.POSEIDON:
            return poseidon.PoseidonHash(arity)
        if arity != 2:
            raise ValueError(f"a SHA-256 tree of arity {arity}")
        return Sha256Pair()


@dataclass(frozen=True, slots=True)
class PathToRoot:
    """A path whose index bits and siblings are allocated here; its leaf index is a public input.

    Variables: the leaf, if `given_leaf`, else it is allocated here; then the root, if it is the caller's (then it stays
    private). Without that variable the root is allocated too, after the leaf index became an input, and is private or
    public. `arities` are those of the levels from the leaf up.
    """

    arities: tuple[int, ...]
    private: bool = True
    hasher: Hasher = Hasher.POSEIDON
    given_leaf: bool = False

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[()]:
        node = variables[0] if self.given_leaf else cs.alloc()
        path: tuple[Variable, ...] = ()
        for arity in self.arities:
            bits = allocate_bits(cs, index_bits(arity))
            siblings = [cs.alloc() for _ in range(arity - 1)]
            node = _parent(cs, self.hasher, node, bits, siblings)
            path += bits
        pack_into_inputs(cs, path)
        roots = variables[self.given_leaf :]
        root = roots[0] if roots else cs.alloc()
        enforce_equal(cs, node, root)
        if not self.private:
            inputize(cs, root)
        return ()


@dataclass(frozen=True, slots=True)
class PathOfBits:
    """A path of variables that all are the caller's; it has no public input.

    Variables: the index bits, from the lowest level up, least significant first; the leaf; the siblings, likewise from
    the lowest level up; the root.
    """

    arities: tuple[int, ...]
    hasher: Hasher = Hasher.POSEIDON

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[()]:
        rest = iter(variables)
        bits = iter(taken(rest, sum(map(index_bits, self.arities))))
        node = next(rest)
        siblings = iter(taken(rest, sum(self.arities) - len(self.arities)))
        (root,) = rest
        for arity in self.arities:
            node = _parent(cs, self.hasher, node, taken(bits, index_bits(arity)), taken(siblings, arity - 1))
        enforce_equal(cs, node, root)
        return ()


def taken(values: Iterator[Variable], count: int) -> list[Variable]:
    """The next `count` of the variables that a gadget is given."""
    return [next(values) for _ in range(count)]


def _parent(
    cs: ConstraintSystem, hasher: Hasher, node: Variable, bits: Sequence[Variable], siblings: Sequence[Variable]
) -> Variable:
    children = insert(RowSelector(cs), node, bits, siblings)
    (parent,) = cs.instance(hasher.gadget(len(children)), *children)
    return parent


def index_bits(arity: int) -> int:
    """Bits of a position among `arity` children."""
    return arity.bit_length() - 1


def level_rows(arity: int) -> int:
    """Rows of one level of a Poseidon tree."""
    return index_bits(arity) + INSERTION_ROWS[arity] + poseidon.num_rows(arity)


def num_rows(arities: tuple[int, ...]) -> int:
    """Rows of a path in Poseidon trees with a private root."""
    return sum(map(level_rows, arities)) + 2
