"""Point formulas on G1 and G2: complete for every pair, against the schoolbook ones; bytes of points."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prover.algebra import affine, lanes, points
from prover.algebra import curve as formulas
from prover.algebra.fields import FP, NonCanonical
from prover.algebra.points import InvalidPoint, Rows
from prover.reference import curve as reference
from prover.reference.fields import fp2_mul
from tests.algebra.conftest import Curve


def pairs(curve: Curve, rng: random.Random) -> list[tuple[reference.Point, reference.Point]]:
    """Every special case of addition, and a few ordinary ones."""
    p, q = curve.random_points(rng, 2)
    special = [(p, q), (p, p), (p, reference.negate(p)), (None, p), (p, None), (None, None)]
    many = curve.random_points(rng, 6)
    return special + list(zip(many[:3], many[3:], strict=True))


def projective(curve: Curve, values: list[reference.Point], rng: random.Random) -> Rows:
    """Projective rows with a random Z, so that no formula gets away with Z = 1."""
    rows = []
    for p in values:
        z = (rng.randrange(1, FP.p), rng.randrange(FP.p) if curve.group.degree == 2 else 0)
        scale = fp2_mul
        point = ((0, 0), z, (0, 0)) if p is None else (scale(p[0], z), scale(p[1], z), z)
        flat = [c for pair in point for c in pair[: curve.group.degree]]
        rows.append(FP.encode_ints32(flat).reshape(-1))
    return np.stack(rows)


def affine_points(curve: Curve, rows: Rows) -> list[reference.Point]:
    data = affine.to_bytes(curve.group, *affine.normalise(curve.group, rows))
    return curve.points_of(data)


def test_projective_addition_is_complete(curve: Curve, rng: random.Random) -> None:
    cases = pairs(curve, rng)
    left, right = (projective(curve, [c[i] for c in cases], rng) for i in range(2))
    degree = curve.group.degree
    total = jax.jit(formulas.add)(
        lanes.columns(jnp.asarray(left), 3, degree), lanes.columns(jnp.asarray(right), 3, degree)
    )
    assert affine_points(curve, np.asarray(lanes.to_rows(total))) == [reference.add(p, q) for p, q in cases]


def test_mixed_addition_is_complete(curve: Curve, rng: random.Random) -> None:
    cases = pairs(curve, rng)
    degree = curve.group.degree
    left = lanes.columns(jnp.asarray(projective(curve, [p for p, _ in cases], rng)), 3, degree)
    right = lanes.columns(jnp.asarray(points.to_rows(curve.group, curve.bytes_of([q for _, q in cases]))), 2, degree)
    finite = jnp.asarray([0.0 if q is None else 1.0 for _, q in cases])
    total = jax.jit(formulas.add_affine)(left, right, finite)
    assert affine_points(curve, np.asarray(lanes.to_rows(total))) == [reference.add(p, q) for p, q in cases]


def test_doubling(curve: Curve, rng: random.Random) -> None:
    values = [*curve.random_points(rng, 3), None]
    start = lanes.columns(jnp.asarray(projective(curve, values, rng)), 3, curve.group.degree)
    doubled = np.asarray(lanes.to_rows(jax.jit(formulas.double)(start)))
    assert affine_points(curve, doubled) == [reference.add(p, p) for p in values]


def test_negation(curve: Curve, rng: random.Random) -> None:
    values = curve.random_points(rng, 2)
    start = lanes.columns(jnp.asarray(projective(curve, values, rng)), 3, curve.group.degree)
    out = formulas.negate_if(start, jnp.asarray([True, False]))
    assert affine_points(curve, np.asarray(lanes.to_rows(out))) == [reference.negate(values[0]), values[1]]


def test_long_sums_stay_exact(curve: Curve, rng: random.Random) -> None:
    """Residues and sizes do not creep: 300 additions of the formula's own output."""
    p, q = curve.random_points(rng, 2)
    degree = curve.group.degree
    a, b = (lanes.columns(jnp.asarray(projective(curve, [v], rng)), 3, degree) for v in (p, q))
    summed = jax.jit(lambda a, b: jax.lax.fori_loop(0, 300, lambda _, s: formulas.add(s, b), a))(a, b)
    assert float(jnp.abs(summed).max()) <= 1 << 24
    assert affine_points(curve, np.asarray(lanes.to_rows(summed))) == [reference.add(p, reference.multiply(q, 300))]


def test_the_generator_is_the_standard_one(curve: Curve) -> None:
    assert tuple((*c, 0)[:2] for c in curve.group.generator) == curve.generator
    assert reference.on_curve(curve.generator, curve.group.degree)
    assert reference.multiply(curve.generator, reference.R - 1) == reference.negate(curve.generator)


@pytest.mark.parametrize("count", [0, 1, 7, 200])
def test_bytes_survive_rows(curve: Curve, count: int) -> None:
    data = curve.progression(count).copy()
    if count > 3:
        data[2] = curve.bytes_of([None])[0]
    points.check(curve.group, data, "h")
    rows = points.to_rows(curve.group, data)
    assert (affine.to_bytes(curve.group, rows, points.infinities(data)) == data).all()


def test_normalising_marks_infinity(curve: Curve, rng: random.Random) -> None:
    values = [None, *curve.random_points(rng, 2), None]
    rows, at_infinity = affine.normalise(curve.group, projective(curve, values, rng))
    assert at_infinity.tolist() == [True, False, False, True]
    assert (rows[0] == points.infinity_row(curve.group)).all()


def test_bytes_that_are_no_uncompressed_point_are_refused(curve: Curve) -> None:
    good = curve.progression(3)
    compressed, infinite, large = good.copy(), good.copy(), good.copy()
    compressed[1, 0] |= 0x80
    infinite[2, 0] |= 0x40
    large[0, :48] = np.frombuffer(FP.p.to_bytes(48, "big"), np.uint8)
    with pytest.raises(InvalidPoint, match=r"h\[1\]"):
        points.check(curve.group, compressed, "h")
    with pytest.raises(InvalidPoint, match=r"h\[2\]"):
        points.check(curve.group, infinite, "h")
    with pytest.raises(NonCanonical, match=r"h\[0\]"):
        points.check(curve.group, large, "h")
    with pytest.raises(InvalidPoint, match="bytes"):
        points.check(curve.group, good[:, :-1], "h")
