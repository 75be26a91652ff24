"""The stacked DRG graph: which nodes' labels go into a node's label.

Sources: storage-proofs-core 19.1.0 (drgraph), storage-proofs-porep 19.1.0 (stacked graph).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, sha256
from struct import pack

from .chacha import chacha8_u64
from .shapes import ApiVersion, seal_api_version

DRG_DEGREE = 6  # parents in the same layer
EXPANSION_DEGREE = 8  # parents in the layer before
_U32 = 0xFFFFFFFF


@dataclass(frozen=True)
class StackedGraph:
    """The graph of a sector with `nodes` nodes, sealed under a RegisteredSealProof."""

    nodes: int
    registered_seal_proof: int

    @property
    def porep_id(self) -> bytes:
        """32 bytes: the seal proof's number, a nonce that is always 0, and zeros."""
        return self.registered_seal_proof.to_bytes(8, "little") + bytes(24)

    @property
    def synthetic(self) -> bool:
        """Whether the seal proof is one of those with synthetic challenges."""
        return 10 <= self.registered_seal_proof < 15

    def parents(self, node: int) -> tuple[int, ...]:
        """The 6 DRG parents, then the 8 expander parents."""
        return self.drg_parents(node) + self.expander_parents(node)

    def drg_parents(self, node: int) -> tuple[int, ...]:
        """Bucket sampling: five earlier nodes at distances of all scales, and the node before; repeats are possible."""
        if node < 2:
            return (0,) * DRG_DEGREE
        numbers = chacha8_u64(self._drg_key + node.to_bytes(4, "little"))
        meta = node * (DRG_DEGREE - 1)
        sampled = tuple(_bucket_sample(meta, next(numbers), next(numbers)) for _ in range(DRG_DEGREE - 1))
        first = seal_api_version(self.registered_seal_proof) >= ApiVersion.V1_1_0
        return (node - 1, *sampled) if first else (*sampled, node - 1)

    def expander_parents(self, node: int) -> tuple[int, ...]:
        """Images of a Feistel permutation; the node itself and repeats are possible."""
        images = (self._permuted(node * EXPANSION_DEGREE + i) for i in range(EXPANSION_DEGREE))
        if seal_api_version(self.registered_seal_proof) == ApiVersion.V1_0_0:
            images = (image & _U32 for image in images)
        return tuple(image // EXPANSION_DEGREE for image in images)

    def parents_cache(self) -> bytes:
        """The file of all parents: per node 14 u32, little-endian."""
        return b"".join(pack("<14I", *self.parents(node)) for node in range(self.nodes))

    @cached_property
    def _drg_key(self) -> bytes:
        return sha256(b"Filecoin_DRSample" + self.porep_id).digest()[:28]

    @cached_property
    def _feistel_keys(self) -> tuple[bytes, ...]:
        """Three round keys, big-endian as the round function takes them."""
        digest = sha256(b"Filecoin_Feistel" + self.porep_id).digest()
        return tuple(digest[i : i + 8][::-1] for i in (0, 8, 16))

    def _permuted(self, value: int) -> int:
        """The Feistel permutation of 0 .. 8 nodes - 1, by cycle walking."""
        size = self.nodes * EXPANSION_DEGREE
        half = max(1, -(-(size - 1).bit_length() // 2))  # bits
        value = self._feistel(value, half)
        while value >= size:
            value = self._feistel(value, half)
        return value

    def _feistel(self, value: int, half: int) -> int:
        mask = (1 << half) - 1
        left, right = value >> half, value & mask
        for key in self._feistel_keys:
            digest = blake2b(right.to_bytes(8, "big") + key).digest()
            left, right = right, left ^ (int.from_bytes(digest[:8], "big") & mask)
        return left << half | right


def _bucket_sample(meta: int, x: int, y: int) -> int:
    """One parent of the metagraph node `meta`, from two random numbers: first the scale, then the distance."""
    high = min(meta, 1 << x % meta.bit_length() + 1)
    low = max(2, high >> 1)
    return (meta - low - y % (high - low + 1)) // (DRG_DEGREE - 1)
