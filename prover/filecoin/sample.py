"""Sample requests over freshly sealed sectors: valid, and determined by a tag, so that tests prove unseen data.

The rule of the published vectors: every name below the tag gives bytes by SHA-256. `stream` gives data, `canonical`
field elements; nothing here is secret or random.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from hashlib import sha256

from . import c1, fr
from .commit import commit
from .partition_proof import write_partition_proof
from .post import leaf_challenge
from .sealing import SealedSector, pad, seal
from .shapes import (
    KIB,
    REGISTERED_SIZES,
    SECTORS,
    CircuitShape,
    PorepShape,
    PostShape,
    ProofKind,
    SectorShape,
    porep_shape,
    post_shape,
    registered_api_version,
    update_shape,
)
from .updating import prove_partition, update
from .vanilla import SectorProof, write_sector_proof

MINER = 1000
SEAL_PROOF = 5  # StackedDrg2KiBV1_1
#: the numbers of 2 KiB; of the PoSts, at the newest ApiVersion
_REGISTERED = {
    ProofKind.POREP: SEAL_PROOF,
    ProofKind.SNAP: 0,
    ProofKind.WINDOW_POST: 10,
    ProofKind.WINNING_POST: 0,
}
_NAMES = {
    ProofKind.POREP: ("POREP_SEAL_COMMIT", "NORMAL"),
    ProofKind.SNAP: ("SNAP_DEALS_UPDATE", "NORMAL"),
    ProofKind.WINDOW_POST: ("WINDOW_POST_PARTITION", "HIGH"),
    ProofKind.WINNING_POST: ("WINNING_POST", "CRITICAL"),
}
_SMALLEST = SECTORS[2 * KIB]


def window_post(tag: str, sector_ids: Sequence[int] = (1, 2), sector: SectorShape = _SMALLEST) -> bytes:
    """A WindowPoSt request in JSON over the sectors with these ids, which must ascend."""
    shape = post_shape(ProofKind.WINDOW_POST, sector.size)
    randomness = canonical(f"{tag} window randomness")
    proofs = [_vanilla_proof(shape, fresh_sector(tag, number, sector), randomness) for number in sector_ids]
    label = f"wdpost-{MINER}-0-{randomness[:8].hex()}"
    return _request(shape, label, vanillaProofs=_encoded(*proofs), randomness=_base64(randomness))


def winning_post(tag: str, sector_id: int = 1, sector: SectorShape = _SMALLEST) -> bytes:
    """A WinningPoSt request in JSON over the sector with this id."""
    shape = post_shape(ProofKind.WINNING_POST, sector.size)
    randomness = canonical(f"{tag} winning randomness")
    proof = _vanilla_proof(shape, fresh_sector(tag, sector_id, sector), randomness)
    label = f"winpost-{MINER}-{randomness[:8].hex()}"
    return _request(shape, label, vanillaProofs=_encoded(proof), randomness=_base64(randomness))


def porep_c2(tag: str, sector_id: int = 1, sector: SectorShape = _SMALLEST) -> bytes:
    """A PoRep request in JSON over the sector with this id. Raises UnsupportedSectorSize for a size without a seal
    proof: a C1 output must name its own."""
    shape = porep_shape(sector.size)
    if sector.size not in REGISTERED_SIZES:
        registered_api_version(ProofKind.POREP, sector.size, SEAL_PROOF)  # says what is wrong with it
    registered = SEAL_PROOF + REGISTERED_SIZES.index(sector.size)
    output = c1_output(tag, fresh_sector(tag, sector_id, sector, registered), shape)
    wrapped = c1.write_wrapper(c1.write_inner(output, shape, registered), sector_id, sector.size)
    return _request(shape, f"porep-{MINER}-{sector_id}", vanillaProof=_base64(wrapped), sectorNumber=str(sector_id))


def snap_update(tag: str, sector_id: int = 1, sector: SectorShape = _SMALLEST) -> bytes:
    """A SnapDeals request in JSON over the sector with this id, whose data were replaced."""
    shape = update_shape(sector.size)
    old = fresh_sector(tag, sector_id, sector)
    new = update(old, shape, _data(f"{tag} snap data", sector))
    proofs = [write_partition_proof(prove_partition(new, k), shape) for k in range(shape.partitions)]
    commitments = {"commROld": old.comm_r, "commRNew": new.comm_r, "commDNew": new.comm_d}
    return _request(
        shape,
        f"snap-{MINER}-{sector_id}",
        vanillaProofs=_encoded(*proofs),
        sectorNumber=str(sector_id),
        **{name: _base64(fr.to_bytes(value)) for name, value in commitments.items()},
    )


def fresh_sector(
    tag: str, sector_id: int, sector: SectorShape = _SMALLEST, registered_seal_proof: int = SEAL_PROOF
) -> SealedSector:
    """A sealed sector whose data and ticket follow from the tag and its id."""
    return seal(
        sector,
        _data(f"{tag} data {sector_id}", sector),
        sector_id=sector_id,
        miner_id=MINER,
        ticket=canonical(f"{tag} ticket {sector_id}"),
        registered_seal_proof=registered_seal_proof,
    )


def c1_output(tag: str, sealed: SealedSector, shape: PorepShape) -> c1.C1Output:
    """The C1 output of a fresh sector under the seed of the tag."""
    ticket = canonical(f"{tag} ticket {sealed.sector_id}")
    return commit(sealed, shape, seed=canonical(f"{tag} seed"), ticket=ticket)


def canonical(name: str) -> bytes:
    """32 bytes that are a canonical field element."""
    return fr.clear(sha256(f"cuzk test vector {name}".encode()).digest())


def stream(name: str, size: int) -> bytes:
    """`size` bytes of data."""
    blocks = (sha256(f"cuzk test vector {name} {i}".encode()).digest() for i in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def _vanilla_proof(shape: PostShape, sealed: SealedSector, randomness: bytes) -> bytes:
    """At the newest ApiVersion, where the n-th challenge of a sector depends on nothing but n."""
    leaves = [
        leaf_challenge(randomness, sealed.sector_id, n, shape.sector.nodes)
        for n in range(shape.paths_per_vanilla_proof)
    ]
    paths = tuple(sealed.replica_tree.prove(leaf) for leaf in leaves)
    proof = SectorProof(sealed.sector_id, sealed.comm_r, sealed.comm_c, sealed.comm_r_last, paths)
    return write_sector_proof(proof, shape.sector)


def _data(name: str, sector: SectorShape) -> bytes:
    """A sector full of data, padded."""
    return pad(stream(name, sector.size // 128 * 127))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _encoded(*proofs: bytes) -> list[str]:
    return [_base64(proof) for proof in proofs]


def _request(shape: CircuitShape, label: str, **own: object) -> bytes:
    """The request in proto3's JSON mapping, with the fields of its kind."""
    size = shape.sector.size
    kind, priority = _NAMES[shape.kind]
    fields: dict[str, object] = {
        "requestId": label,
        "proofKind": kind,
        "sectorSize": str(size),
        "priority": priority,
        "minerId": str(MINER),
        **own,
    }
    if size in REGISTERED_SIZES:
        fields["registeredProof"] = str(_REGISTERED[shape.kind] + REGISTERED_SIZES.index(size))
    return json.dumps(fields, indent=1).encode() + b"\n"
