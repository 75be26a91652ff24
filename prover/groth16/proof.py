"""A proof as bytes: A (48) | B (96) | C (48), compressed, big-endian, flags as Zcash has them.

The two directions share nothing: the prover encodes by comparing integers, the verifier decodes by py-arkworks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from py_arkworks_bls12381 import G1Point, G2Point

from prover.filecoin.shapes import PROOF_BYTES
from prover.groth16.errors import ProofMalformed

Point = TypeVar("Point", G1Point, G2Point)
_P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
_COMPRESSED = 0x80
_INFINITY = 0x40
_LARGER_ROOT = 0x20


def encode(a: bytes, b: bytes, c: bytes) -> bytes:
    """The 192 bytes of A (96 bytes x | y), B (192 bytes x.c1 | x.c0 | y.c1 | y.c0) and C (96); none at infinity."""
    return compress(a) + compress(b) + compress(c)


def compress(point: bytes) -> bytes:
    """Half of an uncompressed finite G1 or G2 point: its x, with the flags in the three free bits of the first byte."""
    half = len(point) // 2
    if point[0] & _INFINITY:
        raise ProofMalformed("a part of the proof is the point at infinity: the witness or the key is degenerate")
    flags = _COMPRESSED | (_LARGER_ROOT if _is_larger_root(point[half:]) else 0)
    return bytes([point[0] | flags]) + point[1:half]


def _is_larger_root(y: bytes) -> bool:
    """Whether y (48 bytes, or 96 as c1 | c0) comes after -y, where c1 decides before c0."""
    coefficients = [int.from_bytes(y[i : i + 48], "big") for i in range(0, len(y), 48)]
    leading = next((c for c in coefficients if c), 0)
    return leading > (_P - 1) // 2


@dataclass(frozen=True)
class Proof:
    """The three points of a proof, each on its curve, in the subgroup of order r, and finite."""

    a: G1Point
    b: G2Point
    c: G1Point

    @classmethod
    def parse(cls, data: bytes) -> Proof:
        """Decode exactly 192 bytes; ProofMalformed names the point at fault."""
        if len(data) != PROOF_BYTES:
            raise ProofMalformed(f"a proof has {PROOF_BYTES} bytes, not {len(data)}", field="proof")
        return cls(
            a=_decode("A", data[:48], G1Point.from_compressed_bytes),
            b=_decode("B", data[48:144], G2Point.from_compressed_bytes),
            c=_decode("C", data[144:], G1Point.from_compressed_bytes),
        )


def _decode(name: str, data: bytes, decode: Callable[[bytes], Point]) -> Point:
    if data[0] & _INFINITY:
        raise ProofMalformed("the point at infinity", field=f"proof.{name}")
    try:
        return decode(data)
    except ValueError:
        raise ProofMalformed("not a compressed point of the subgroup", field=f"proof.{name}") from None


def split(data: bytes) -> Iterator[bytes]:
    """The proofs of the partitions, 192 bytes each, in order; ProofMalformed when the length is no multiple of that."""
    if not data or len(data) % PROOF_BYTES:
        raise ProofMalformed(f"{len(data)} bytes, not a multiple of {PROOF_BYTES}", field="proof")
    return (data[i : i + PROOF_BYTES] for i in range(0, len(data), PROOF_BYTES))
