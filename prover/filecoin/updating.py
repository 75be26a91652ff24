"""Replacing the data of a sealed sector: the new replica, and its vanilla proofs. For samples and tests, as `sealing`.

Source: storage-proofs-update 19.1.0 (vanilla).
"""

from __future__ import annotations

from dataclasses import dataclass

from . import fr, poseidon
from .partition_proof import NodeProof, PartitionProof
from .sealing import MerkleTree, SealedSector, build_data_tree, build_tree
from .shapes import UpdateShape
from .update import challenges, encode, phi, rho


@dataclass(frozen=True)
class UpdatedSector:
    """A sector with other data in it; the columns are those of the old one."""

    shape: UpdateShape
    old: SealedSector
    data_tree: MerkleTree
    replica_tree: MerkleTree

    @property
    def comm_d(self) -> int:
        """The commitment to the new data."""
        return self.data_tree.root

    @property
    def comm_r(self) -> int:
        """The commitment to the new replica."""
        return poseidon.digest((self.old.comm_c, self.replica_tree.root))


def update(old: SealedSector, shape: UpdateShape, data: bytes) -> UpdatedSector:
    """Put `data`, padded by `sealing.pad`, in the place of the old ones. Raises ValueError for another size."""
    if len(data) != shape.sector.size:
        raise ValueError(f"{len(data)} bytes given, a sector of {shape.sector.name} holds {shape.sector.size}")
    tree = build_data_tree([data[at : at + fr.SIZE] for at in range(0, len(data), fr.SIZE)])
    common = phi(tree.root, old.comm_r)
    rhos = [rho(common, high) for high in range(1 << shape.h)]
    nodes = zip(old.replica_tree.rows[0], tree.rows[0], strict=True)
    replica = [encode(before, new, rhos[shape.high(node)]) for node, (before, new) in enumerate(nodes)]
    return UpdatedSector(shape, old, tree, build_tree(shape.sector, replica))


def prove_partition(updated: UpdatedSector, partition: int) -> PartitionProof:
    """The vanilla proof of a partition."""
    shape, trees = updated.shape, (updated.old.replica_tree, updated.data_tree, updated.replica_tree)
    nodes = challenges(shape, updated.comm_r, partition)
    row = updated.data_tree.rows[shape.challenge_bits - shape.apex_bits]
    first = partition * shape.apex_leaves
    return PartitionProof(
        comm_c=updated.old.comm_c,
        apex_leaves=row[first : first + shape.apex_leaves],
        nodes=tuple(NodeProof(*(tree.prove(node) for tree in trees)) for node in nodes),
    )
