"""WindowPoSt and WinningPoSt: challenges, the full check of vanilla proofs, and the partitions to prove.

Source: storage-proofs-post 19.1.0 (fallback), filecoin-proofs 19.1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from . import merkle, poseidon
from .errors import CommRMismatch, DuplicateSector, SectorOrder
from .request import PostRequest
from .shapes import ApiVersion, PostShape, ProofKind, SectorShape
from .vanilla import MerkleProof, SectorProof, read_sector_head, read_sector_proof

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CircuitSector:
    """What the circuit knows of one of its sectors; `paths` has one Merkle path a challenge. Canonical integers."""

    comm_r: int
    comm_c: int
    comm_r_last: int
    paths: tuple[MerkleProof, ...]


@dataclass(frozen=True, slots=True)
class PostInstance:
    """The private side of a FallbackPoSt circuit: as many sectors as its shape has."""

    sectors: tuple[CircuitSector, ...]


@dataclass(frozen=True, slots=True)
class PostPartition:
    """One circuit to prove; `public_inputs`: canonical integers, ONE excluded, per sector comm_r and its challenges."""

    index: int  # of the partition in its deadline
    shape: PostShape
    instance: PostInstance
    public_inputs: tuple[int, ...]


def partitions(request: PostRequest) -> tuple[PostPartition, ...]:
    """The circuits of a request, in order, after the full check of its vanilla proofs.

    Raises a subclass of InvalidInput that names the place, such as
    ``vanilla_proofs[3].sectors[0].inclusion_proofs[7]``.
    """
    shape, sectors = request.shape, read_sectors(request)
    for i, sector in enumerate(sectors):
        check_sector(sector, challenges(request, i, sector.sector_id), shape.sector, f"vanilla_proofs[{i}]")
    groups = _groups(sectors, shape)
    return tuple(
        PostPartition(request.partition_index + number, shape, _instance(group, shape), inputs)
        for number, (group, inputs) in enumerate(zip(groups, public_inputs(request), strict=True))
    )


def public_inputs(request: PostRequest) -> tuple[tuple[int, ...], ...]:
    """The public inputs of each partition as a verifier derives them: from ids, comm_r and randomness alone."""
    heads = [read_sector_head(proof, f"vanilla_proofs[{i}]") for i, proof in enumerate(request.vanilla_proofs)]
    _check_order([sector_id for sector_id, _ in heads])
    rows = [(comm_r, challenges(request, i, sector_id)) for i, (sector_id, comm_r) in enumerate(heads)]
    return tuple(_flatten(group, request.shape) for group in _groups(rows, request.shape))


def read_sectors(request: PostRequest) -> tuple[SectorProof, ...]:
    """The vanilla proofs of a request, well-formed and in ascending order of sector id, but not yet checked."""
    sectors = tuple(
        read_sector_proof(proof, request.shape, f"vanilla_proofs[{i}]")
        for i, proof in enumerate(request.vanilla_proofs)
    )
    _check_order([sector.sector_id for sector in sectors])
    return sectors


def challenges(request: PostRequest, position: int, sector_id: int) -> tuple[int, ...]:
    """The leaves that the randomness challenges in the sector at `position` among the request's vanilla proofs."""
    shape = request.shape
    count = shape.paths_per_vanilla_proof
    first = 0
    if request.kind is ProofKind.WINDOW_POST and request.api_version < ApiVersion.V1_2_0:
        first = (request.partition_index * shape.sectors + position) * count
    return tuple(leaf_challenge(request.randomness, sector_id, first + n, shape.sector.nodes) for n in range(count))


def leaf_challenge(randomness: bytes, sector_id: int, challenge_index: int, nodes: int) -> int:
    """The leaf that `randomness` challenges, as the Filecoin specification has it."""
    suffix = sector_id.to_bytes(8, "little") + challenge_index.to_bytes(8, "little")
    return int.from_bytes(sha256(randomness + suffix).digest()[:8], "little") % nodes


def prover_id(miner_id: int) -> bytes:
    """The 32 bytes of a miner in the proofs: the payload of its ID address, LEB128, zero-padded."""
    groups = [(miner_id >> shift) & 0x7F for shift in range(0, max(miner_id.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]]).ljust(32, b"\0")


def winning_sector(miner_id: int, randomness: bytes, sector_count: int) -> int:
    """The position of the sector that WinningPoSt's randomness picks among a miner's sectors."""
    digest = sha256(prover_id(miner_id) + randomness + bytes(8)).digest()
    return int.from_bytes(digest[:8], "little") % sector_count


def check_sector(proof: SectorProof, leaves: tuple[int, ...], sector: SectorShape, field: str) -> None:
    """Raises CommRMismatch, WrongChallenge or MerklePathMismatch when `proof` does not prove `leaves`."""
    check_comm_r(proof, field)
    for i, (inclusion, leaf) in enumerate(zip(proof.inclusion_proofs, leaves, strict=True)):
        place = f"{field}.sectors[0].inclusion_proofs[{i}]"
        merkle.check_place(inclusion, sector.digits(leaf), f"leaf {leaf}, which the randomness challenges", place)
        merkle.check_root(inclusion, proof.comm_r_last, "comm_r_last", place)


def check_comm_r(proof: SectorProof, field: str) -> None:
    """Raises CommRMismatch unless comm_r = Poseidon(comm_c, comm_r_last)."""
    if poseidon.digest((proof.comm_c, proof.comm_r_last)) != proof.comm_r:
        raise CommRMismatch(field=f"{field}.comm_r")


def _check_order(sector_ids: list[int]) -> None:
    for i in range(1, len(sector_ids)):
        before, here = sector_ids[i - 1 : i + 1]
        if here == before:
            raise DuplicateSector(f"sector {here} occurs twice", field=f"vanilla_proofs[{i}].sector_id")
        if here < before:
            raise SectorOrder(f"sector {here} after sector {before}", field=f"vanilla_proofs[{i}].sector_id")


def _groups(items: Sequence[T], shape: PostShape) -> list[Sequence[T]]:
    """The vanilla proofs of each partition."""
    count = shape.vanilla_proofs_per_partition
    return [items[at : at + count] for at in range(0, len(items), count)]


def _flatten(rows: Sequence[tuple[int, Sequence[int]]], shape: PostShape) -> tuple[int, ...]:
    """The public inputs of a partition from (comm_r, challenges) of its vanilla proofs."""
    sectors = [
        (comm_r, *leaves[at : at + shape.challenges]) for comm_r, leaves in rows for at in _starts(leaves, shape)
    ]
    return tuple(value for sector in _filled(sectors, shape) for value in sector)


def _instance(proofs: Sequence[SectorProof], shape: PostShape) -> PostInstance:
    sectors = [
        CircuitSector(p.comm_r, p.comm_c, p.comm_r_last, p.inclusion_proofs[at : at + shape.challenges])
        for p in proofs
        for at in _starts(p.inclusion_proofs, shape)
    ]
    return PostInstance(tuple(_filled(sectors, shape)))


def _starts(challenges: Sequence[object], shape: PostShape) -> range:
    """Where the challenges of each circuit sector begin: a winning proof of one sector fills the whole circuit."""
    return range(0, len(challenges), shape.challenges)


def _filled(sectors: list[T], shape: PostShape) -> list[T]:
    """A short partition repeats its last sector."""
    return sectors + sectors[-1:] * (shape.sectors - len(sectors))
