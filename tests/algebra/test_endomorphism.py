"""Images of points under the endomorphisms are the multiples they stand for; a scalar's parts add up to it."""

from __future__ import annotations

import random

import numpy as np

from prover.algebra import affine, limbs, points
from prover.algebra.endomorphism import X, images, part_bits, parts, split
from prover.algebra.fields import FR
from prover.reference import curve as reference
from tests.algebra.conftest import EDGE_SCALARS, Curve


def base_of(curve: Curve) -> int:
    return X ** (2 // curve.group.degree)


def test_the_curves_order_is_that_of_the_parameter() -> None:
    assert X**4 - X**2 + 1 == FR.p


def test_images_are_multiples(curve: Curve, rng: random.Random) -> None:
    bases = curve.random_points(rng, 3)
    found = images(curve.group, points.to_rows(curve.group, curve.bytes_of(bases)))
    multiples = [reference.multiply(p, base_of(curve) ** i) for i in range(1, parts(curve.group)) for p in bases]
    assert (
        affine.to_bytes(curve.group, found, np.zeros(len(found), bool)).tobytes() == curve.bytes_of(multiples).tobytes()
    )


def test_parts_add_up_to_the_scalar_and_are_small(curve: Curve, rng: random.Random) -> None:
    base = base_of(curve)
    corners = [base**i * k + d for i in range(parts(curve.group)) for k in (1, base - 1) for d in (-1, 0, 1)]
    scalars = [s for s in (*EDGE_SCALARS, *corners) if 0 <= s < FR.p] + [rng.randrange(FR.p) for _ in range(500)]
    cut = split(curve.group, FR.bytes_of(scalars))
    assert cut.shape == (parts(curve.group), len(scalars), part_bits(curve.group) // 8)
    numbers = [[int.from_bytes(row.tobytes(), "little") for row in part] for part in cut]
    assert [sum(d * base**i for i, d in enumerate(digits)) for digits in zip(*numbers, strict=True)] == scalars
    assert max(map(max, numbers)) < base < 1 << part_bits(curve.group)


def test_division_of_limbs(rng: random.Random) -> None:
    """Quotients next to a multiple of the divisor, where an estimate may be one off."""
    for divisor in (3, X, X * X, (1 << 128) - 1, 1 << 64):
        values = [divisor * rng.randrange((1 << 255) // divisor) + d for d in (0, 1, divisor - 1) for _ in range(100)]
        words = np.array([[v >> (16 * i) & 0xFFFF for v in values] for i in range(16)], np.int64)
        quotient, rest = limbs.divide(words, divisor)
        assert [sum(int(w) << (16 * i) for i, w in enumerate(c)) for c in quotient.T] == [v // divisor for v in values]
        assert [sum(int(w) << (16 * i) for i, w in enumerate(c)) for c in rest.T] == [v % divisor for v in values]
