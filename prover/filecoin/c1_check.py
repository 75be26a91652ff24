"""The full check of a C1 output: all that a verifier recomputes, and all that the circuit enforces.

Sources: storage-proofs-porep 19.1.0 (stacked, vanilla verification), filecoin-proofs 19.1.0 (seal).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from . import c1, fr, merkle, porep, poseidon
from .errors import (
    ColumnMismatch,
    CommRMismatch,
    EncodingMismatch,
    LabelMismatch,
    ReplicaIdMismatch,
    WrongChallenge,
    WrongParent,
)
from .graph import StackedGraph
from .labels import encode, expanded, label, replica_id
from .post import prover_id
from .request import PorepRequest
from .shapes import PorepShape

PLACE = "vanilla_proof.Phase1Out"


@dataclass(frozen=True, slots=True)
class PorepPartition:
    """One circuit to prove; `public_inputs`: canonical integers, ONE excluded."""

    index: int
    shape: PorepShape
    instance: porep.PorepInstance
    public_inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Claims:
    """What a verifier knows of the sector, beside the challenges. Canonical integers, and the replica id's bytes."""

    identity: bytes
    comm_d: int
    comm_r: int

    @property
    def replica_id(self) -> int:
        return int.from_bytes(self.identity, "little")


def partitions(request: PorepRequest) -> tuple[PorepPartition, ...]:
    """The circuits of a request, in order, after the full check of its C1 output.

    Raises a subclass of InvalidInput that names the place, such as
    ``vanilla_proof.Phase1Out.vanilla_proofs.StackedDrg2KiBV1[0][1].labeling_proofs[0]``.
    """
    output = _read(request)
    claims, graph = _claims(request, output), _graph(request)
    if output.replica_id != claims.identity:
        raise ReplicaIdMismatch(field=f"{PLACE}.replica_id")
    checker = _Checker(request.shape, graph, claims, output)
    return tuple(
        checker.partition(index, nodes) for index, nodes in enumerate(_challenges(request, output, claims, graph))
    )


def public_inputs(request: PorepRequest) -> tuple[tuple[int, ...], ...]:
    """The public inputs of each partition as a verifier derives them: from the miner, the sector, and the C1's ticket,
    seed, comm_d and comm_r."""
    output = _read(request)
    claims, graph = _claims(request, output), _graph(request)
    return tuple(_inputs(graph, claims, nodes) for nodes in _challenges(request, output, claims, graph))


def _read(request: PorepRequest) -> c1.C1Output:
    return c1.read_inner(request.c1.inner, request.shape, request.seal_proof, PLACE)


def _graph(request: PorepRequest) -> StackedGraph:
    return StackedGraph(request.shape.sector.nodes, request.seal_proof)


def _claims(request: PorepRequest, output: c1.C1Output) -> _Claims:
    comm_d = fr.from_bytes(output.comm_d, f"{PLACE}.comm_d")
    comm_r = fr.from_bytes(output.comm_r, f"{PLACE}.comm_r")
    prover, sector = prover_id(request.miner_id), request.c1.sector_number
    identity = replica_id(prover, sector, output.ticket, output.comm_d, _graph(request).porep_id)
    return _Claims(identity, comm_d, comm_r)


def _challenges(
    request: PorepRequest, output: c1.C1Output, claims: _Claims, graph: StackedGraph
) -> list[tuple[int, ...]]:
    """The challenged nodes of each partition."""
    count = request.shape.challenges
    return [
        porep.challenged_nodes(graph, claims.identity, output.comm_r, output.seed, range(first, first + count))
        for first in range(0, request.shape.partitions * count, count)
    ]


def _inputs(graph: StackedGraph, claims: _Claims, nodes: tuple[int, ...]) -> tuple[int, ...]:
    return porep.public_inputs(graph, claims.replica_id, claims.comm_d, claims.comm_r, nodes)


class _Checker:
    """Checks one partition after the other against the same two roots."""

    def __init__(self, shape: PorepShape, graph: StackedGraph, claims: _Claims, output: c1.C1Output) -> None:
        """Raises CommRMismatch unless comm_r is the hash of the roots that the first challenge declares."""
        self._shape = shape
        self._graph = graph
        self._claims = claims
        self._partitions = output.partitions
        self._hash = cache(poseidon.digest)  # paths meet towards their root, and parents are near their node
        first = output.partitions[0][0]
        self._comm_c, self._comm_r_last = first.column.path.root, first.replica_path.root
        if poseidon.digest((self._comm_c, self._comm_r_last)) != claims.comm_r:
            raise CommRMismatch(field=f"{PLACE}.comm_r")

    def partition(self, index: int, nodes: tuple[int, ...]) -> PorepPartition:
        place = f"{PLACE}.vanilla_proofs.StackedDrg{self._shape.sector.name}V1[{index}]"
        challenges = tuple(
            self._challenge(proof, node, f"{place}[{i}]")
            for i, (proof, node) in enumerate(zip(self._partitions[index], nodes, strict=True))
        )
        claims = self._claims
        instance = porep.PorepInstance(
            replica_id=claims.replica_id,
            comm_d=claims.comm_d,
            comm_r=claims.comm_r,
            comm_c=self._comm_c,
            comm_r_last=self._comm_r_last,
            challenges=challenges,
        )
        return PorepPartition(index, self._shape, instance, _inputs(self._graph, claims, nodes))

    def _challenge(self, proof: c1.ChallengeProof, node: int, place: str) -> porep.PorepChallenge:
        self._check_data(proof, node, f"{place}.comm_d_proofs")
        columns = f"{place}.replica_column_proofs"
        if proof.column.node != node:
            text = f"the column is of node {proof.column.node}, the seed challenges node {node}"
            raise WrongChallenge(text, field=f"{columns}.c_x.column.index")
        self._check_column(proof.column, f"{columns}.c_x")
        self._check_parents(proof.drg_parents, self._graph.drg_parents(node), f"{columns}.drg_parents")
        self._check_parents(proof.expander_parents, self._graph.expander_parents(node), f"{columns}.exp_parents")
        for layer in range(1, self._shape.layers + 1):
            self._check_label(proof, node, layer, f"{place}.labeling_proofs[{layer - 1}]")
        self._check_encoding(proof, node, place)
        return porep.PorepChallenge(
            node=node,
            data=proof.data_path,
            drg_parents=tuple(map(_column, proof.drg_parents)),
            expander_parents=tuple(map(_column, proof.expander_parents)),
            column=_column(proof.column),
            replica=proof.replica_path,
        )

    def _check_data(self, proof: c1.ChallengeProof, node: int, place: str) -> None:
        digits = merkle.binary_digits(node, self._shape.data_levels)
        merkle.check_place(proof.data_path, digits, _challenged(node), place)
        merkle.check_root(proof.data_path, self._claims.comm_d, "comm_d", place, merkle.sha256_node)

    def _check_column(self, column: c1.ColumnProof, place: str) -> None:
        """That the column is a leaf of comm_c, at its own place."""
        path = f"{place}.inclusion_proof"
        merkle.check_place(column.path, self._shape.sector.digits(column.node), f"node {column.node}", path)
        if self._hash(column.labels) != column.path.leaf:
            raise ColumnMismatch(field=f"{place}.column.rows")
        merkle.check_root(column.path, self._comm_c, "comm_c", path, self._hash)

    def _check_parents(self, columns: tuple[c1.ColumnProof, ...], parents: tuple[int, ...], place: str) -> None:
        for i, (column, parent) in enumerate(zip(columns, parents, strict=True)):
            if column.node != parent:
                text = f"the column is of node {column.node}, the graph has node {parent}"
                raise WrongParent(text, field=f"{place}[{i}].column.index")
            self._check_column(column, f"{place}[{i}]")

    def _check_label(self, proof: c1.ChallengeProof, node: int, layer: int, place: str) -> None:
        parents = _parent_labels(proof, layer)
        _check_labeling(proof.labeling[layer - 1], parents, node, layer, place)
        computed = label(self._claims.identity, layer, node, [fr.to_bytes(parent) for parent in parents])
        if int.from_bytes(computed, "little") != proof.column.labels[layer - 1]:
            raise LabelMismatch(f"the label of node {node} in layer {layer} is not their hash", field=place)

    def _check_encoding(self, proof: c1.ChallengeProof, node: int, place: str) -> None:
        layers = self._shape.layers
        _check_labeling(proof.encoding, _parent_labels(proof, layers), node, layers, f"{place}.encoding_proof")
        path = f"{place}.comm_r_last_proof"
        merkle.check_place(proof.replica_path, self._shape.sector.digits(node), _challenged(node), path)
        if encode(proof.column.labels[-1], proof.data_path.leaf) != proof.replica_path.leaf:
            raise EncodingMismatch(field=f"{path}.leaf")
        merkle.check_root(proof.replica_path, self._comm_r_last, "comm_r_last", path, self._hash)


def _challenged(node: int) -> str:
    return f"node {node}, which the seed challenges"


def _column(column: c1.ColumnProof) -> porep.Column:
    return porep.Column(column.labels, column.path)


def _parent_labels(proof: c1.ChallengeProof, layer: int) -> tuple[int, ...]:
    """The labels of the parents that enter the label of `layer`, from 1."""
    near = tuple(column.labels[layer - 1] for column in proof.drg_parents)
    return near if layer == 1 else near + tuple(column.labels[layer - 2] for column in proof.expander_parents)


def _check_labeling(proof: c1.LabelingProof, parents: tuple[int, ...], node: int, layer: int, place: str) -> None:
    """That a labeling proof says what the columns say."""
    if (proof.node, proof.layer) != (node, layer):
        text = f"of node {proof.node} in layer {proof.layer}, not of node {node} in layer {layer}"
        raise LabelMismatch(text, field=place)
    for i, (found, wanted) in enumerate(zip(proof.parents, expanded(parents), strict=True)):
        if found != wanted:
            raise LabelMismatch("not the label in the parent's column", field=f"{place}.parents[{i}]")
