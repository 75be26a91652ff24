"""Proofs of partitions arrive in any order and are joined in theirs."""

from __future__ import annotations

import threading

from ..filecoin.shapes import PROOF_BYTES


class Assembler:
    """Collects one proof a partition; the first that comes counts. Thread-safe."""

    def __init__(self, partitions: int) -> None:
        self._proofs: list[bytes | None] = [None] * partitions
        self._lock = threading.Lock()
        self._taken = False

    def insert(self, partition: int, proof: bytes) -> bool:
        """Keep a proof of 192 bytes; False when the partition has one. Raises ValueError for another length."""
        if len(proof) != PROOF_BYTES:
            raise ValueError(f"a partition's proof has {PROOF_BYTES} bytes, not {len(proof)}")
        with self._lock:
            if self._proofs[partition] is not None:
                return False
            self._proofs[partition] = proof
            return True

    def has(self, partition: int) -> bool:
        """Whether the partition has a proof."""
        with self._lock:
            return self._proofs[partition] is not None

    def missing(self) -> list[int]:
        """The partitions that have none."""
        with self._lock:
            return [partition for partition, proof in enumerate(self._proofs) if proof is None]

    def take(self) -> bytes | None:
        """All proofs in order, 192 bytes each: for the first caller after the last has come, so that one delivers."""
        with self._lock:
            proofs = [proof for proof in self._proofs if proof is not None]
            if self._taken or len(proofs) < len(self._proofs):
                return None
            self._taken = True
            return b"".join(proofs)
