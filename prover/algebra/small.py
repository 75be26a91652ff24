"""A handful of points in plain integers: what is left of an MSM when its sums are too few for the lanes.

A coordinate is a pair (c0, c1), c1 = 0 on G1; a point is projective (X, Y, Z) by the complete formulas of `curve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from prover.algebra.constants import P
from prover.algebra.curve import Group
from prover.algebra.fields import FP
from prover.algebra.limbs import Bytes
from prover.algebra.points import Rows, from_affine

Pair = tuple[int, int]
Point = tuple[Pair, Pair, Pair]

INFINITY: Final[Point] = ((0, 0), (1, 0), (0, 0))


def mul(x: Pair, y: Pair) -> Pair:
    """Their product in Fp2."""
    return (x[0] * y[0] - x[1] * y[1]) % P, (x[0] * y[1] + x[1] * y[0]) % P


def _sum(*terms: Pair) -> Pair:
    return sum(t[0] for t in terms), sum(t[1] for t in terms)


def _minus(x: Pair) -> Pair:
    return -x[0], -x[1]


def _times_3b(x: Pair, degree: int) -> Pair:
    return (12 * x[0], 0) if degree == 1 else (12 * (x[0] - x[1]), 12 * (x[0] + x[1]))


def add(p: Point, q: Point, degree: int) -> Point:
    """p + q, complete."""
    (x1, y1, z1), (x2, y2, z2) = p, q
    t0, t1, t2 = mul(x1, x2), mul(y1, y2), mul(z1, z2)
    t3 = _sum(mul(_sum(x1, y1), _sum(x2, y2)), _minus(t0), _minus(t1))
    t4 = _sum(mul(_sum(y1, z1), _sum(y2, z2)), _minus(t1), _minus(t2))
    y3 = _times_3b(_sum(mul(_sum(x1, z1), _sum(x2, z2)), _minus(t0), _minus(t2)), degree)
    t0, t2 = (3 * t0[0], 3 * t0[1]), _times_3b(t2, degree)
    z3, t1 = _sum(t1, t2), _sum(t1, _minus(t2))
    return (
        _sum(mul(t3, t1), _minus(mul(t4, y3))),
        _sum(mul(t1, z3), mul(y3, t0)),
        _sum(mul(z3, t4), mul(t0, t3)),
    )


def shift(p: Point, bits: int, degree: int) -> Point:
    """2^bits * p."""
    for _ in range(bits):
        p = add(p, p, degree)
    return p


def horner(points: Sequence[Point], bits: int, degree: int) -> Point:
    """The sum of 2^(bits * i) * points[i]."""
    result = INFINITY
    for p in reversed(points):
        result = add(shift(result, bits, degree), p, degree)
    return result


def from_rows(group: Group, rows: Rows) -> list[Point]:
    """Projective rows -> points."""
    flat = rows.reshape(len(rows), 2 * FP.k, -1).transpose(1, 0, 2).reshape(2 * FP.k, -1)
    numbers = iter(FP.decode_ints(flat))

    def pair() -> Pair:
        return next(numbers), next(numbers) if group.degree == 2 else 0

    return [(pair(), pair(), pair()) for _ in rows]


def to_bytes(group: Group, p: Point) -> Bytes:
    """The affine point, uncompressed: uint8[96 or 192]."""
    z = [c % P for c in p[2]]
    norm = (z[0] * z[0] + z[1] * z[1]) % P
    inverse = pow(norm, -1, P) if norm else 0
    of_z = (z[0] * inverse, -z[1] * inverse)
    x, y = ([FP.bytes_of([c]) for c in mul(v, of_z)[: group.degree]] for v in p[:2])
    result: Bytes = from_affine(group, x, y, np.array([norm == 0]))[0]
    return result
