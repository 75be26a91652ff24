"""Sealing a small sector: replica id, labels, encoding, trees and commitments.

For samples and tests of the smallest sizes: plain Python, the whole sector in memory.
Sources: storage-proofs-porep 19.1.0 (stacked), fr32 12.1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from . import fr, poseidon
from .graph import DRG_DEGREE, StackedGraph
from .labels import encode, label, replica_id
from .porep import Column
from .post import prover_id
from .shapes import LAYERS, SectorShape
from .vanilla import MerkleProof, PathElement


@dataclass(frozen=True)
class MerkleTree:
    """All rows of a tree, the leaves first, the root last; `arities` are those of the levels from the leaves up."""

    arities: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def root(self) -> int:
        """The commitment."""
        return self.rows[-1][0]

    def prove(self, leaf: int) -> MerkleProof:
        """The path from the leaf with number `leaf` to the root."""
        path, at = [], leaf
        for row, arity in zip(self.rows, self.arities, strict=False):
            start = at - at % arity
            path.append(PathElement(row[start:at] + row[at + 1 : start + arity], at % arity))
            at //= arity
        return MerkleProof(self.root, self.rows[0][leaf], tuple(path))


@dataclass(frozen=True)
class SealedSector:
    """What a storage provider keeps of a sector, and its commitments as canonical integers."""

    sector_id: int
    graph: StackedGraph
    replica_id: bytes
    labels: tuple[tuple[bytes, ...], ...]  # by layer
    data_tree: MerkleTree
    column_tree: MerkleTree
    replica_tree: MerkleTree

    @property
    def comm_d(self) -> bytes:
        """The root over the data."""
        return fr.to_bytes(self.data_tree.root)

    @property
    def comm_c(self) -> int:
        """The root over the columns of labels."""
        return self.column_tree.root

    @property
    def replica(self) -> bytes:
        """The sealed sector."""
        return b"".join(map(fr.to_bytes, self.replica_tree.rows[0]))

    @property
    def comm_r_last(self) -> int:
        """The root over the replica."""
        return self.replica_tree.root

    @property
    def comm_r(self) -> int:
        """The commitment on the chain."""
        return poseidon.digest((self.comm_c, self.comm_r_last))

    def column(self, node: int) -> Column:
        """The labels of a node, proved."""
        return Column(tuple(_number(layer[node]) for layer in self.labels), self.column_tree.prove(node))


def seal(
    sector: SectorShape,
    data: bytes,
    *,
    sector_id: int,
    miner_id: int,
    ticket: bytes,
    registered_seal_proof: int,
    layers: int = LAYERS,
) -> SealedSector:
    """Seal `data`, padded by `pad`, of exactly a sector's size. Raises ValueError for another size."""
    if len(data) != sector.size:
        raise ValueError(f"{len(data)} bytes given, a sector of {sector.name} holds {sector.size}")
    graph = StackedGraph(sector.nodes, registered_seal_proof)
    nodes = [data[at : at + fr.SIZE] for at in range(0, len(data), fr.SIZE)]
    data_tree = build_data_tree(nodes)
    identity = replica_id(prover_id(miner_id), sector_id, ticket, fr.to_bytes(data_tree.root), graph.porep_id)
    labels = label_layers(graph, identity, layers)
    columns = [poseidon.digest([_number(label) for label in column]) for column in zip(*labels, strict=True)]
    replica = [encode(_number(key), _number(node)) for key, node in zip(labels[-1], nodes, strict=True)]
    column_tree, replica_tree = build_tree(sector, columns), build_tree(sector, replica)
    return SealedSector(sector_id, graph, identity, labels, data_tree, column_tree, replica_tree)


def label_layers(graph: StackedGraph, identity: bytes, layers: int) -> tuple[tuple[bytes, ...], ...]:
    """The labels of all nodes by layer."""
    parents = [graph.parents(node) for node in range(graph.nodes)]
    done: list[tuple[bytes, ...]] = []
    for layer in range(1, layers + 1):
        labels: list[bytes] = []
        for node in range(graph.nodes):
            drg, expander = parents[node][:DRG_DEGREE], parents[node][DRG_DEGREE:]
            near = [labels[parent] for parent in drg] if node else []
            far = [done[-1][parent] for parent in expander] if done else []
            labels.append(label(identity, layer, node, near + far))
        done.append(tuple(labels))
    return tuple(done)


def build_data_tree(nodes: Sequence[bytes]) -> MerkleTree:
    """The binary SHA-256 tree over the data, each digest cleared; its root is comm_d."""
    rows = [list(nodes)]
    while len(rows[-1]) > 1:
        pairs = zip(rows[-1][::2], rows[-1][1::2], strict=True)
        rows.append([fr.clear(sha256(left + right).digest()) for left, right in pairs])
    return MerkleTree((2,) * (len(rows) - 1), tuple(tuple(map(_number, row)) for row in rows))


def build_tree(sector: SectorShape, leaves: Sequence[int]) -> MerkleTree:
    """The Poseidon tree of the sector's shape over as many leaves as it has nodes."""
    rows = [tuple(leaves)]
    for arity in sector.arities:
        row = rows[-1]
        rows.append(tuple(poseidon.digest(row[at : at + arity]) for at in range(0, len(row), arity)))
    return MerkleTree(sector.arities, tuple(rows))


def pad(data: bytes) -> bytes:
    """fr32 padding: each 254 bits of `data`, then two zero bits. 127 bytes give 128; ValueError for other multiples."""
    if len(data) % 127:
        raise ValueError(f"{len(data)} bytes are no multiple of 127")
    bits = int.from_bytes(data, "little")
    mask = (1 << 254) - 1
    return b"".join(fr.to_bytes(bits >> at & mask) for at in range(0, len(data) * 8, 254))


def _number(node: bytes) -> int:
    return int.from_bytes(node, "little")
