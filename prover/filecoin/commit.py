"""The C1 output of a sealed sector: what a storage provider hands to a prover. For samples and tests, as `sealing`."""

from __future__ import annotations

from collections.abc import Sequence

from . import fr
from .c1 import C1Output, ChallengeProof, ColumnProof, LabelingProof
from .labels import expanded
from .porep import challenged_nodes
from .sealing import SealedSector
from .shapes import PorepShape


def commit(sealed: SealedSector, shape: PorepShape, *, seed: bytes, ticket: bytes) -> C1Output:
    """The vanilla proofs of all partitions of a sector sealed with `ticket`, challenged by `seed`."""
    comm_r = fr.to_bytes(sealed.comm_r)
    positions = [range(k * shape.challenges, (k + 1) * shape.challenges) for k in range(shape.partitions)]
    partitions = tuple(
        tuple(
            prove_node(sealed, node)
            for node in challenged_nodes(sealed.graph, sealed.replica_id, comm_r, seed, challenged)
        )
        for challenged in positions
    )
    return C1Output(partitions, comm_r, sealed.comm_d, sealed.replica_id, seed, ticket)


def prove_node(sealed: SealedSector, node: int) -> ChallengeProof:
    """The vanilla proof of one challenge."""
    drg, expander = sealed.graph.drg_parents(node), sealed.graph.expander_parents(node)
    labeling = tuple(
        _labeling(sealed, node, layer, drg, expander if layer > 1 else ()) for layer in range(1, len(sealed.labels) + 1)
    )
    return ChallengeProof(
        data_path=sealed.data_tree.prove(node),
        replica_path=sealed.replica_tree.prove(node),
        column=_column(sealed, node),
        drg_parents=tuple(_column(sealed, parent) for parent in drg),
        expander_parents=tuple(_column(sealed, parent) for parent in expander),
        labeling=labeling,
        encoding=labeling[-1],
    )


def _column(sealed: SealedSector, node: int) -> ColumnProof:
    column = sealed.column(node)
    return ColumnProof(node, column.labels, column.path)


def _labeling(
    sealed: SealedSector, node: int, layer: int, drg: Sequence[int], expander: Sequence[int]
) -> LabelingProof:
    parents = [sealed.labels[layer - 1][parent] for parent in drg]
    parents += [sealed.labels[layer - 2][parent] for parent in expander]
    return LabelingProof(expanded([int.from_bytes(parent, "little") for parent in parents]), layer, node)
