"""The residue number system: its value is exact in both bases, and its bounds hold for extreme residues."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from prover.algebra.fields import FP, FR, Field
from prover.algebra.rns import SLACK

FIELDS = pytest.mark.parametrize("field", [FR, FP], ids=["Fr", "Fp"])


def extreme(field: Field, count: int, factor: float = 1.0) -> npt.NDArray[np.float64]:
    """Residues at their bounds, of every pattern of signs: all up, all down, alternating, random."""
    rng = np.random.default_rng(5)
    half = np.floor(field.modulus / 2)[:, None] * factor
    signs = rng.choice([-1.0, 1.0], (2 * field.k, count))
    signs[:, 0], signs[:, 1] = 1.0, -1.0
    signs[:, 2] = np.where(np.arange(2 * field.k) % 2, 1.0, -1.0)
    return half * signs


def both(field: Field, residues: npt.NDArray[np.float64]) -> list[int]:
    """Values of the columns, which must read the same in both bases."""
    values = [field.value(column, "b") for column in residues.T]
    assert values == [field.value(column, "a") for column in residues.T]
    return values


@FIELDS
def test_the_primes_are_distinct_three_mod_four_and_below_two_to_the_25(field: Field) -> None:
    assert len(set(field.moduli)) == 2 * field.k
    assert all(m % 4 == 3 and m < (1 << 25) - (1 << 7) for m in field.moduli)
    assert all(all(m % q for q in range(2, 5800)) for m in field.moduli)
    assert min(field.M, field.N) > field.p << 19


@FIELDS
def test_reduction_divides_by_m_and_keeps_its_bound(field: Field) -> None:
    rng = random.Random(1)
    limit = SLACK * field.p - 1
    x = [limit, -limit, 0, 1, field.p, *(rng.randrange(-limit, limit) for _ in range(59))]
    y = [limit, limit, limit, *(rng.randrange(-limit, limit) for _ in range(61))]
    reduced = np.asarray(jax.jit(field.mul)(field.residues(x), field.residues(y)))
    values = both(field, reduced)
    assert all((v * field.M - a * b) % field.p == 0 for v, a, b in zip(values, x, y, strict=True))
    assert max(map(abs, values)) <= (field.k // 2 + 1) * field.p
    assert np.abs(reduced).max() <= 1 << 24


@FIELDS
@pytest.mark.parametrize("scale", [1.0, 2.0, 3.9])
def test_sums_of_products_at_the_bounds_of_residues_reduce_exactly(field: Field, scale: float) -> None:
    """|T| up to 2^52, whatever the value: the reduction must agree with integers on every residue it was given."""
    t = np.floor(extreme(field, 64) * extreme(field, 64)[:, ::-1] * scale * 4)
    assert np.abs(t).max() > 2**49 and np.abs(t).max() < 2**52
    reduced = np.asarray(jax.jit(field.reduce)(t))
    assert np.abs(reduced).max() <= 1 << 24
    for column, before in zip(reduced.T, t.T, strict=True):
        assert integer_reduction(field, before) == [int(v) % m for v, m in zip(column, field.moduli, strict=True)]


def integer_reduction(field: Field, t: npt.NDArray[np.float64]) -> list[int]:
    """The algorithm of `rns` in integers, from its text: exact whatever the size of the numbers."""
    k, p = field.k, field.p
    plain = [int(v) * pow(g * g, -1, m) % m for v, g, m in zip(t, field.scales, field.moduli, strict=True)]

    def sign(i: int, constant: int) -> int:
        m = field.moduli[i]
        return 1 if field.scales[i] ** 2 % m == constant % m else -1

    q = 0
    for i, a in enumerate(field.a):
        constant = -pow(p * (field.M // a), -1, a)
        xi = _balanced(int(t[i]), a)
        q += xi * sign(i, constant) * (field.M // a)
    r = [(plain[k + j] + q * p) * pow(field.M, -1, b) % b for j, b in enumerate(field.b)]
    digits = [_balanced(v * pow(field.N // b, -1, b), b) for v, b in zip(r, field.b, strict=True)]
    total = sum(d * (field.N // b) for d, b in zip(digits, field.b, strict=True))
    alpha = round(sum(d / b for d, b in zip(digits, field.b, strict=True)))
    value = total - alpha * field.N
    return [value * g % m for g, m in zip(field.scales, field.moduli, strict=True)]


def _balanced(x: int, m: int) -> int:
    x %= m
    return x - m if x > m // 2 else x


@FIELDS
def test_balancing_is_exact_up_to_two_to_the_53(field: Field) -> None:
    rng = np.random.default_rng(2)
    t = rng.integers(-(2**53) + 1, 2**53, (2 * field.k, 512)).astype(np.float64)
    t[:, 0], t[:, 1] = 2.0**53 - 1, -(2.0**53) + 1
    out = np.asarray(jax.jit(field.red)(t))
    assert np.abs(out).max() <= 1 << 24
    moduli = field.modulus.astype(np.int64)[:, None]
    assert not ((t.astype(np.int64) - out.astype(np.int64)) % moduli).any()


@FIELDS
def test_the_zero_test_sees_every_multiple_of_p_and_nothing_else(field: Field) -> None:
    multiples = [j * field.p for j in (0, 1, -1, 9, -9, 255, -255)]
    others = [1, -1, field.p - 1, field.p + 1, 2 * field.p + 1, field.p // 2, field.M % field.p]
    zero = np.asarray(jax.jit(field.is_zero)(jnp.asarray(field.residues([*multiples, *others]))))
    assert zero.tolist() == [True] * len(multiples) + [False] * len(others)
