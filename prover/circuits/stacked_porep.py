"""StackedDrg PoRep, one partition: a replica of public data was labelled and encoded as the graph demands.

Public are the replica's id, comm_d and comm_r, and for each challenge its node and its parents, once for every path:
the circuit does not know the graph, so a verifier must derive those numbers itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from prover.circuits import uint64
from prover.circuits.boolean import Boolean, booleans
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.label import create_label
from prover.circuits.num import add, allocate_public, enforce_equal, to_bits
from prover.circuits.por import Hasher, PathToRoot
from prover.circuits.poseidon import PoseidonHash
from prover.circuits.sha256 import number_bits, reversed_bytes
from prover.filecoin.graph import DRG_DEGREE, EXPANSION_DEGREE
from prover.filecoin.labels import expanded
from prover.filecoin.shapes import PorepShape

#: variables of `ChallengeRows` before the bits of the replica's id
_ROOTS: Final = 3


def stacked_porep(cs: ConstraintSystem, shape: PorepShape) -> None:
    """The whole circuit. Inputs: ONE, replica id, comm_d, comm_r, then 18 of each challenge."""
    cs.note("head")
    shared = cs.instance(Head())
    for number in range(shape.challenges):
        cs.note(f"challenge {number}")
        cs.instance(ChallengeRows(shape), *shared)


@dataclass(frozen=True, slots=True)
class Head:
    """The commitments; gives comm_d, comm_r_last, comm_c and the bits of the replica's id."""

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        replica_id = allocate_public(cs)
        bits = to_bits(cs, replica_id)
        comm_d, comm_r = allocate_public(cs), allocate_public(cs)
        comm_r_last, comm_c = cs.alloc(), cs.alloc()
        (computed,) = cs.instance(PoseidonHash(2), comm_c, comm_r_last)
        enforce_equal(cs, comm_r, computed)
        return (comm_d, comm_r_last, comm_c, *bits)


@dataclass(frozen=True)
class ChallengeRows:
    """One challenge, as a template of what `Head` gives."""

    shape: PorepShape

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[()]:
        (comm_d, comm_r_last, comm_c), identity = variables[:_ROOTS], reversed_bytes(booleans(variables[_ROOTS:]))
        tree = PathToRoot(self.shape.sector.arities, given_leaf=True)
        cs.note("data path")
        data = cs.alloc()
        cs.instance(PathToRoot((2,) * self.shape.data_levels, hasher=Hasher.SHA256, given_leaf=True), data, comm_d)
        columns = []
        for number in range(DRG_DEGREE + EXPANSION_DEGREE):
            cs.note(f"parent {number}")
            columns.append(cs.instance(ParentRows(self.shape), comm_c))
        labels = self._labels(cs, identity, columns)
        cs.note("replica path")
        cs.instance(tree, add(cs, labels[-1], data), comm_r_last)
        cs.note("column path")
        (column,) = cs.instance(PoseidonHash(self.shape.layers), *labels)
        cs.instance(tree, column, comm_c)
        return ()

    def _labels(
        self, cs: ConstraintSystem, identity: Sequence[Boolean], columns: Sequence[Sequence[Variable]]
    ) -> list[Variable]:
        """The node's labels, layer 1 first; `columns` are those of its parents."""
        cs.note("node")
        bits = uint64.allocate(cs)
        uint64.pack_into_input(cs, bits)
        node = uint64.big_endian(bits)
        labels = []
        for layer in range(1, self.shape.layers + 1):
            cs.note(f"label of layer {layer}")
            parents = [column[layer - 1] for column in columns[:DRG_DEGREE]]
            if layer > 1:
                parents += [column[layer - 2] for column in columns[DRG_DEGREE:]]
            numbers = [number_bits(cs, parent) for parent in parents]
            labels.append(create_label(cs, identity, layer, node, expanded(numbers)))
        return labels


@dataclass(frozen=True)
class ParentRows:
    """A parent's labels and the path of their digest to comm_c, the variable; gives the labels, layer 1 first."""

    shape: PorepShape

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        labels = tuple(cs.alloc() for _ in range(self.shape.layers))
        (digest,) = cs.instance(PoseidonHash(self.shape.layers), *labels)
        cs.instance(PathToRoot(self.shape.sector.arities, given_leaf=True), digest, *variables)
        return labels
