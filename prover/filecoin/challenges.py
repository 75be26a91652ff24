"""The nodes that a PoRep is challenged at: never node 0. The digests are little-endian integers.

* interactive: from the seed that the chain draws;
* synthetic: of many challenges that follow from the sector itself, some are picked by the seed.

Source: storage-proofs-porep 19.1.0 (stacked, challenges).
"""

from __future__ import annotations

from hashlib import blake2b, sha256

from .chacha import chacha20_bytes

_SYNTHETIC = b"filecoin.io|PoRep|1|Synthetic|1|"
_SYNTHETIC_NONCE = b"synth-porep\0"
SYNTHETIC_CHALLENGES = 1 << 18


def interactive(replica_id: bytes, seed: bytes, nodes: int, positions: range) -> tuple[int, ...]:
    """The challenges at `positions` among those of all partitions: partition k of c each has range(k c, k c + c)."""
    return tuple(_challenge(sha256(replica_id + seed + _u32(j)).digest(), nodes) for j in positions)


def synthetic(
    replica_id: bytes, comm_r: bytes, seed: bytes, nodes: int, positions: range, count: int = SYNTHETIC_CHALLENGES
) -> tuple[int, ...]:
    """As `interactive`, out of the first `count` synthetic challenges, or as many as there are nodes."""
    selection = _synthetic_key(b"Selection", replica_id + seed)
    picked = (int.from_bytes(_stream(selection, 4 * j, 4), "little") % min(nodes, count) for j in positions)
    return tuple(synthetic_challenge(replica_id, comm_r, nodes, i) for i in picked)


def synthetic_challenge(replica_id: bytes, comm_r: bytes, nodes: int, index: int) -> int:
    """The synthetic challenge with number `index`."""
    generation = _synthetic_key(b"Generation", replica_id + comm_r)
    return _challenge(_stream(generation, 32 * index, 32), nodes)


def _challenge(digest: bytes, nodes: int) -> int:
    return int.from_bytes(digest, "little") % (nodes - 1) + 1


def _synthetic_key(purpose: bytes, data: bytes) -> bytes:
    return blake2b(data, key=_SYNTHETIC + purpose, digest_size=32).digest()


def _stream(key: bytes, start: int, size: int) -> bytes:
    return chacha20_bytes(key, _SYNTHETIC_NONCE, start, size)


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")
