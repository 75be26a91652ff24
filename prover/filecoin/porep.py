"""The StackedDrg PoRep: what one of its circuits proves, where it is challenged, and its public inputs.

Source: storage-proofs-porep 19.1.0 (stacked).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import challenges
from .graph import StackedGraph
from .vanilla import MerkleProof


@dataclass(frozen=True, slots=True)
class Column:
    """The labels of one node, layer 1 first, and the path of their digest to comm_c. Canonical integers."""

    labels: tuple[int, ...]
    path: MerkleProof


@dataclass(frozen=True, slots=True)
class PorepChallenge:
    """What a PoRep says of one challenged node."""

    node: int
    data: MerkleProof  # binary, of SHA-256: the unsealed node to comm_d
    drg_parents: tuple[Column, ...]
    expander_parents: tuple[Column, ...]
    column: Column  # the node's own
    replica: MerkleProof  # the sealed node to comm_r_last


@dataclass(frozen=True, slots=True)
class PorepInstance:
    """The private side of a PoRep circuit, one partition: as many challenges as its shape has. Canonical integers."""

    replica_id: int
    comm_d: int
    comm_r: int
    comm_c: int
    comm_r_last: int
    challenges: tuple[PorepChallenge, ...]


def challenged_nodes(
    graph: StackedGraph, replica_id: bytes, comm_r: bytes, seed: bytes, positions: range
) -> tuple[int, ...]:
    """The challenges at `positions` among those of all partitions, under the graph's registered seal proof, one of
    0..14; partition k of c challenges each has range(k c, k c + c)."""
    if graph.synthetic:
        return challenges.synthetic(replica_id, comm_r, seed, graph.nodes, positions)
    return challenges.interactive(replica_id, seed, graph.nodes, positions)


def public_inputs(
    graph: StackedGraph, replica_id: int, comm_d: int, comm_r: int, nodes: Sequence[int]
) -> tuple[int, ...]:
    """The public inputs of the partition that is challenged at `nodes`, as a verifier derives them; ONE excluded."""
    inputs = [replica_id, comm_d, comm_r]
    for node in nodes:
        inputs += (node, *graph.parents(node), node, node, node)
    return tuple(inputs)
