"""The last step of a proof, on plain integers: C = h + l + s A + r B1, where A and B1 hold alpha, beta and delta.

Points are G1 in bellman's uncompressed form, infinity being 0x40 and zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from prover.algebra import small
from prover.algebra.curve import G1
from prover.algebra.digits import BITS

_INFINITY = 0x40


def combine(plain: Sequence[bytes], scaled: Sequence[tuple[bytes, int]]) -> bytes:
    """The sum of points and of multiples of points (96 bytes each; canonical scalars)."""
    terms = [(_from_bytes(point), scalar) for point, scalar in scaled]
    total = small.INFINITY
    for bit in reversed(range(BITS)):
        total = small.add(total, total, G1.degree)
        for point, scalar in terms:
            if scalar >> bit & 1:
                total = small.add(total, point, G1.degree)
    for data in plain:
        total = small.add(total, _from_bytes(data), G1.degree)
    return small.to_bytes(G1, total).tobytes()


def _from_bytes(data: bytes) -> small.Point:
    if data[0] & _INFINITY:
        return small.INFINITY
    return (int.from_bytes(data[:48], "big"), 0), (int.from_bytes(data[48:], "big"), 0), (1, 0)
