"""SnapDeals (EmptySectorUpdate): challenges, the full check of partition proofs, and the partitions to prove.

Source: storage-proofs-update 19.1.0 (challenges, vanilla, compound).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from . import fr, merkle, poseidon
from .errors import ApexMismatch, CommRMismatch, EncodingMismatch
from .partition_proof import NodeProof, PartitionProof, read_partition_proof
from .request import UpdateRequest
from .shapes import UpdateShape
from .vanilla import MerkleProof


@dataclass(frozen=True, slots=True)
class UpdateChallenge:
    """One challenged node: its paths in the old replica, the new data and the new replica."""

    node: int
    old_path: MerkleProof  # to comm_r_last_old
    data_path: MerkleProof  # binary, SHA-256, to comm_d_new; its upper part is the partition's
    new_path: MerkleProof  # to comm_r_last_new


@dataclass(frozen=True, slots=True)
class UpdateInstance:
    """Both sides of an EmptySectorUpdate circuit. Canonical integers."""

    partition: int
    comm_r_old: int
    comm_d_new: int
    comm_r_new: int
    comm_c: int
    comm_r_last_old: int
    comm_r_last_new: int
    apex_leaves: tuple[int, ...]  # of the partition, left to right
    partition_path: tuple[int, ...]  # siblings from the root of the apex leaves up to comm_d_new
    challenges: tuple[UpdateChallenge, ...]


@dataclass(frozen=True, slots=True)
class UpdatePartition:
    """One circuit to prove; `public_inputs`: canonical integers, ONE excluded."""

    index: int
    shape: UpdateShape
    instance: UpdateInstance
    public_inputs: tuple[int, ...]


def partitions(request: UpdateRequest) -> tuple[UpdatePartition, ...]:
    """The circuits of a request, in order, after the full check of its partition proofs.

    Raises a subclass of InvalidInput that names the place, such as
    ``vanilla_proofs[3].challenge_proofs[7].proof_r_new``.
    """
    shape, inputs = request.shape, public_inputs(request)
    proofs = [read_partition_proof(proof, shape, _place(k)) for k, proof in enumerate(request.vanilla_proofs)]
    return tuple(
        UpdatePartition(k, shape, _Checker(request, k, proof).instance(), inputs[k]) for k, proof in enumerate(proofs)
    )


def public_inputs(request: UpdateRequest) -> tuple[tuple[int, ...], ...]:
    """The public inputs of each partition as a verifier derives them: from its number and the three commitments."""
    shape, commitments = request.shape, (request.comm_r_old, request.comm_d_new, request.comm_r_new)
    return tuple((shape.partition_and_h(k), *commitments) for k in range(shape.partitions))


def challenges(shape: UpdateShape, comm_r_new: int, partition: int) -> tuple[int, ...]:
    """The nodes that are challenged in a partition: low bits from digests of comm_r_new, above them the partition."""
    found: list[int] = []
    mask = (1 << shape.challenge_bits) - 1
    for number in range(partition * shape.digests, (partition + 1) * shape.digests):
        digest = poseidon.digest((comm_r_new, number), poseidon.GENERATION_TAG)
        found += (digest >> i * shape.challenge_bits & mask for i in range(shape.challenges_per_digest))
    return tuple(partition << shape.challenge_bits | low for low in found[: shape.challenges])


def phi(comm_d_new: int, comm_r_old: int) -> int:
    """What the randomness of every node depends on."""
    return poseidon.digest((comm_d_new, comm_r_old), poseidon.GENERATION_TAG)


def rho(phi: int, high: int) -> int:
    """The randomness of all nodes with the same h high bits."""
    return poseidon.digest((phi, high), poseidon.GENERATION_TAG)


def encode(old: int, data: int, rho: int) -> int:
    """A node of the new replica."""
    return (old + data * rho) % fr.MODULUS


def _place(partition: int) -> str:
    return f"vanilla_proofs[{partition}]"


class _Checker:
    """Checks one partition's proof against the request."""

    def __init__(self, request: UpdateRequest, partition: int, proof: PartitionProof) -> None:
        self._request = request
        self._shape = request.shape
        self._partition = partition
        self._proof = proof
        self._place = _place(partition)
        self._comm_r_last_old = proof.nodes[0].old.root
        self._comm_r_last_new = proof.nodes[0].new.root
        self._hash = cache(poseidon.digest)  # paths meet towards their root
        self._rho = cache(partial(rho, phi(request.comm_d_new, request.comm_r_old)))

    def instance(self) -> UpdateInstance:
        """Raises a subclass of InvalidInput for the first thing that does not hold."""
        request, proof = self._request, self._proof
        self._check_comm_r(request.comm_r_old, self._comm_r_last_old, "comm_r_old")
        self._check_comm_r(request.comm_r_new, self._comm_r_last_new, "comm_r_new")
        nodes = challenges(self._shape, request.comm_r_new, self._partition)
        checked = tuple(
            self._challenge(each, node, f"{self._place}.challenge_proofs[{i}]")
            for i, (each, node) in enumerate(zip(proof.nodes, nodes, strict=True))
        )
        return UpdateInstance(
            partition=self._partition,
            comm_r_old=request.comm_r_old,
            comm_d_new=request.comm_d_new,
            comm_r_new=request.comm_r_new,
            comm_c=proof.comm_c,
            comm_r_last_old=self._comm_r_last_old,
            comm_r_last_new=self._comm_r_last_new,
            apex_leaves=proof.apex_leaves,
            partition_path=self._partition_path(),
            challenges=checked,
        )

    def _check_comm_r(self, comm_r: int, comm_r_last: int, name: str) -> None:
        if poseidon.digest((self._proof.comm_c, comm_r_last)) != comm_r:
            text = f"{name} of the request is not the hash of comm_c and the root that the first path declares"
            raise CommRMismatch(text, field=f"{self._place}.comm_c")

    def _challenge(self, proof: NodeProof, node: int, place: str) -> UpdateChallenge:
        digits, what = self._shape.sector.digits(node), f"node {node}, which comm_r_new challenges"
        for path, root, name, part in (
            (proof.old, self._comm_r_last_old, "the root of the old replica", "proof_r_old"),
            (proof.new, self._comm_r_last_new, "the root of the new replica", "proof_r_new"),
        ):
            merkle.check_place(path, digits, what, f"{place}.{part}")
            merkle.check_root(path, root, name, f"{place}.{part}", self._hash)
        self._check_data(proof.data, node, what, f"{place}.proof_d_new")
        if encode(proof.old.leaf, proof.data.leaf, self._rho(self._shape.high(node))) != proof.new.leaf:
            raise EncodingMismatch(field=f"{place}.proof_r_new.leaf")
        return UpdateChallenge(node, proof.old, proof.data, proof.new)

    def _check_data(self, path: MerkleProof, node: int, what: str, place: str) -> None:
        """That the path leads to comm_d_new, through the apex leaf over the node and the root over all apex leaves."""
        shape = self._shape
        merkle.check_place(path, merkle.binary_digits(node, shape.node_bits), what, place)
        passed = merkle.check_root(path, self._request.comm_d_new, "comm_d_new", place, merkle.sha256_node)
        height = shape.challenge_bits - shape.apex_bits
        index = (node >> height) & (shape.apex_leaves - 1)
        if passed[height] != self._proof.apex_leaves[index]:
            text = f"not the node over node {node}, which its path passes"
            raise ApexMismatch(text, field=f"{self._place}.apex_leafs[{index}]")

    def _partition_path(self) -> tuple[int, ...]:
        """The siblings above the partition, from the first path: it leads to comm_d_new. Raises ApexMismatch."""
        height = self._shape.challenge_bits
        path = self._proof.nodes[0].data
        if merkle.root_of(self._proof.apex_leaves) != merkle.nodes_above(path, merkle.sha256_node)[height]:
            raise ApexMismatch(field=f"{self._place}.apex_leafs")
        return tuple(element.siblings[0] for element in path.path[height:])
