"""The label of a node in a PoRep: SHA-256 of the replica's id, the layer, the node and its expanded parents."""

from __future__ import annotations

from collections.abc import Sequence

from prover.circuits.boolean import FALSE, Boolean, constant
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.sha256 import sha256_number

LAYER_BITS = 32
#: bits before the parents
HEAD_BITS = 512


def create_label(
    cs: ConstraintSystem,
    replica_id: Sequence[Boolean],
    layer: int,
    node: Sequence[Boolean],
    parents: Sequence[Sequence[Boolean]],
) -> Variable:
    """The label as a number. Ids and parents are 256 bits each as `sha256.number_bits` gives them, the node is 64 bits,
    most significant first; `parents` are the expanded ones, 37 in a sector.
    """
    layer_bits = (constant(layer >> i & 1) for i in reversed(range(LAYER_BITS)))
    head = (*replica_id, *layer_bits, *node)
    zeros = (FALSE,) * (HEAD_BITS - len(head))
    return sha256_number(cs, [*head, *zeros, *(bit for parent in parents for bit in parent)])
