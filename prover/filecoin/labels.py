"""Labels: what the nodes of a sector's graph are numbered with, layer by layer, before data is added to the last one.

Source: storage-proofs-porep 19.1.0 (stacked).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

from . import fr

T = TypeVar("T")
LABEL_PARENTS = 37  # parent labels hashed into a label


def replica_id(prover: bytes, sector_id: int, ticket: bytes, comm_d: bytes, porep_id: bytes) -> bytes:
    """The 32 bytes that enter every label of a sector; `prover` is `post.prover_id` of the miner."""
    return fr.clear(sha256(prover + sector_id.to_bytes(8, "big") + ticket + comm_d + porep_id).digest())


def expanded(parents: Sequence[T]) -> tuple[T, ...]:
    """The 37 parents that enter a label: the 6 of layer 1, or the 14 of a later one, again and again."""
    repeated = (*parents,) * (LABEL_PARENTS // len(parents) + 1)
    return repeated[:LABEL_PARENTS]


def label(identity: bytes, layer: int, node: int, parents: Sequence[bytes]) -> bytes:
    """The label of `node` in `layer` (from 1) under the replica id `identity`: 32 bytes, canonical.

    `parents`: the labels of the DRG parents in this layer, then, above layer 1, those of the expander parents in the
    layer before; node 0 hashes none.
    """
    head = identity + layer.to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20)
    return fr.clear(sha256(head + b"".join(expanded(parents) if node else ())).digest())


def encode(key: int, data: int) -> int:
    """A node of the replica: the last layer's label plus the data."""
    return (key + data) % fr.MODULUS
