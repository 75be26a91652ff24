"""Sample requests over freshly sealed sectors: valid, and determined by a tag, so that tests prove unseen data.

The rule of the published vectors: every name below the tag gives bytes by SHA-256. `stream` gives data, `canonical`
field elements; nothing here is secret or random.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from hashlib import sha256

from . import fr
from .post import leaf_challenge
from .sealing import SealedSector, pad, seal
from .shapes import KIB, REGISTERED_SIZES, SECTORS, PostShape, ProofKind, SectorShape, post_shape
from .vanilla import SectorProof, write_sector_proof

MINER = 1000
SEAL_PROOF = 5  # StackedDrg2KiBV1_1
_REGISTERED = {ProofKind.WINDOW_POST: 10, ProofKind.WINNING_POST: 0}  # of 2 KiB, at the newest ApiVersion
_SMALLEST = SECTORS[2 * KIB]


def window_post(tag: str, sector_ids: Sequence[int] = (1, 2), sector: SectorShape = _SMALLEST) -> bytes:
    """A WindowPoSt request in JSON over the sectors with these ids, which must ascend."""
    shape = post_shape(ProofKind.WINDOW_POST, sector.size)
    randomness = canonical(f"{tag} window randomness")
    proofs = [_vanilla_proof(shape, fresh_sector(tag, number, sector), randomness) for number in sector_ids]
    label = f"wdpost-{MINER}-0-{randomness[:8].hex()}"
    return _request(shape, label, randomness, proofs)


def winning_post(tag: str, sector_id: int = 1, sector: SectorShape = _SMALLEST) -> bytes:
    """A WinningPoSt request in JSON over the sector with this id."""
    shape = post_shape(ProofKind.WINNING_POST, sector.size)
    randomness = canonical(f"{tag} winning randomness")
    proof = _vanilla_proof(shape, fresh_sector(tag, sector_id, sector), randomness)
    label = f"winpost-{MINER}-{randomness[:8].hex()}"
    return _request(shape, label, randomness, [proof])


def fresh_sector(tag: str, sector_id: int, sector: SectorShape = _SMALLEST) -> SealedSector:
    """A sealed sector whose data and ticket follow from the tag and its id."""
    return seal(
        sector,
        pad(stream(f"{tag} data {sector_id}", sector.size // 128 * 127)),
        sector_id=sector_id,
        miner_id=MINER,
        ticket=canonical(f"{tag} ticket {sector_id}"),
        registered_seal_proof=SEAL_PROOF,
    )


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


def _request(shape: PostShape, label: str, randomness: bytes, proofs: Sequence[bytes]) -> bytes:
    """The request in proto3's JSON mapping."""
    size, window = shape.sector.size, shape.kind is ProofKind.WINDOW_POST
    fields: dict[str, object] = {
        "requestId": label,
        "proofKind": "WINDOW_POST_PARTITION" if window else "WINNING_POST",
        "sectorSize": str(size),
        "priority": "HIGH" if window else "CRITICAL",
        "vanillaProofs": [base64.b64encode(proof).decode() for proof in proofs],
        "minerId": str(MINER),
        "randomness": base64.b64encode(randomness).decode(),
    }
    if size in REGISTERED_SIZES:
        fields["registeredProof"] = str(_REGISTERED[shape.kind] + REGISTERED_SIZES.index(size))
    return json.dumps(fields, indent=1).encode() + b"\n"
