"""SnapDeals' vanilla proof of a partition: PartitionProof in bincode.

Source: storage-proofs-update 19.1.0 (vanilla).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from . import fr
from .shapes import UpdateShape
from .source import Bincode, Source
from .vanilla import (
    MerkleProof,
    PathParts,
    binary_parts,
    merkle_proof_size,
    path_parts,
    read_merkle_proof,
    write_merkle_proof,
)

_U64 = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class NodeProof:
    """The three paths of a challenged node."""

    old: MerkleProof  # in the old replica
    data: MerkleProof  # in the new data, binary
    new: MerkleProof  # in the new replica


@dataclass(frozen=True, slots=True)
class PartitionProof:
    """A partition's vanilla proof as it is written. Field elements are canonical integers."""

    comm_c: int
    apex_leaves: tuple[int, ...]
    nodes: tuple[NodeProof, ...]


def read_partition_proof(data: bytes, shape: UpdateShape, field: str) -> PartitionProof:
    """The vanilla proof in `data`. Every error names its place below `field`, such as ``vanilla_proofs[3]``.

    Raises TruncatedVanillaProof, TrailingBytes, MalformedVanillaProof, NonCanonicalElement.
    """
    source = Bincode(data, field)
    comm_c = source.part("comm_c").element()
    apex_leaves = source.part("apex_leafs").elements(shape.apex_leaves)
    tree, binary = _parts(shape)
    items = source.part("challenge_proofs").items(shape.challenges)
    nodes = tuple(_read_node(item, tree, binary) for item in items)
    source.end()
    return PartitionProof(comm_c, apex_leaves, nodes)


def write_partition_proof(proof: PartitionProof, shape: UpdateShape) -> bytes:
    """Inverse of `read_partition_proof`."""
    tree, binary = _parts(shape)
    parts = [fr.to_bytes(proof.comm_c), _U64.pack(len(proof.apex_leaves)), *map(fr.to_bytes, proof.apex_leaves)]
    parts.append(_U64.pack(len(proof.nodes)))
    for node in proof.nodes:
        parts += (
            write_merkle_proof(node.old, tree),
            write_merkle_proof(node.data, binary),
            write_merkle_proof(node.new, tree),
        )
    return b"".join(parts)


def partition_proof_size(shape: UpdateShape) -> int:
    """The number of bytes of a partition's vanilla proof."""
    tree, binary = _parts(shape)
    node = 2 * merkle_proof_size(tree) + merkle_proof_size(binary)
    return 32 + 8 + 32 * shape.apex_leaves + 8 + shape.challenges * node


def _parts(shape: UpdateShape) -> tuple[PathParts, PathParts]:
    return path_parts(shape.sector), binary_parts(shape.node_bits)


def _read_node(source: Source, tree: PathParts, binary: PathParts) -> NodeProof:
    return NodeProof(
        read_merkle_proof(source.part("proof_r_old"), tree),
        read_merkle_proof(source.part("proof_d_new"), binary),
        read_merkle_proof(source.part("proof_r_new"), tree),
    )
