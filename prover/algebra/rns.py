"""Residue number system with Montgomery reduction in float64.

An element is an integer x, any representative of its class mod p (how far off is bounded below), kept as 2k balanced
residues g_i * x mod m_i: k primes of base A (product M), k of base B (product N). The primes are 3 mod 4 and just
below 2^25, so a constant or its negative is a square, and the scale g_i is that square root of the constant by which
a reduction would have to multiply residue i: a product of two scaled residues already carries it (its sign e_i is
folded into the matrices).

Reduction of T, given as residues g_i^2 * T (sums of products):
  A: xi_i = red(T_i) = e_i * (-T / (p * (M/a_i)) mod a_i);  q = sum xi_i e_i M/a_i = -T/p mod M, |q| <= k M / 2
  B: r = (T + q p) / M exactly;  x_j = red(T_j + sum_i E1_ji xi_i) = e_j * (r / (N/b_j) mod b_j)
  back: r = sum x_j e_j N/b_j - alpha N with alpha = round(sum x_j e_j / b_j); A residues by the matrix E2, B by
  weights.

Bounds, proved here once. m < 2^25, so a balanced residue is at most 2^24 in size.
  exactness: `red` of |t| < 2^53 is off by at most 2 from balanced, because t/m < 2^28.01 is computed to 2^-24; the
    primes lie at least 2^7 below 2^25, so results stay <= 2^24 and are exact in float32. A product of two sums of two
    residues is < 2^50, and the sums of products formed in `curve` and `tower` are < 2^52. The dot products have k <=
    16 terms of at most 2^48: <= 2^52; T_j + dot < 2^52 + 2^52 = 2^53.
  size: |r| <= |T|/M + p k/2, and M > 2^19 p. So for |T| <= 2^19 p^2 (two operands below 2^9 p, say) a reduced element
    is below (k/2 + 1) p: 9 p for Fp, 6.5 r for Fr. `curve` and `ntt` count their sums against this.
  alpha is exact as |r| / N < 2^-12, far from a half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PRIME_BITS: Final = 25
#: both operands of a product may be this many times p, and more where a sum is counted (see the module's bounds)
SLACK: Final = 512


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % q for q in range(2, math.isqrt(n) + 1))


def _primes(count: int) -> list[int]:
    """The largest `count` primes below 2^25 - 2^7 that are 3 mod 4."""
    found: list[int] = []
    n = (1 << PRIME_BITS) - (1 << 7) - 1
    while len(found) < count:
        if _is_prime(n):
            found.append(n)
        n -= 4
    return found


def balanced(x: int, m: int) -> int:
    """x mod m in (-m/2, m/2]."""
    x %= m
    return x - m if x > m // 2 else x


def _signed_root(v: int, m: int) -> tuple[int, int]:
    """(g, e) with g^2 = e * v mod m, e = 1 or -1; m is a prime that is 3 mod 4."""
    g = pow(v, (m + 1) // 4, m)
    return g, 1 if g * g % m == v % m else -1


def column(values: Floats, like: jax.Array) -> jax.Array:
    """A vector of constants shaped to broadcast along the leading axis of `like`."""
    return jnp.asarray(values.reshape((-1,) + (1,) * (like.ndim - 1)))


class Rns:
    """The system for one modulus `p` on two bases of `k` primes. Immutable; methods ending in arrays trace under jit.

    Arrays of elements are float64[2k, ...], base A first. `float32` keeps reduced residues exactly.
    """

    def __init__(self, p: int, k: int) -> None:
        primes = _primes(2 * k)
        self.p, self.k = p, k
        self.a, self.b = primes[::2], primes[1::2]
        self.moduli = self.a + self.b
        self.M, self.N = math.prod(self.a), math.prod(self.b)
        if min(self.M, self.N) < p << 19:
            raise ValueError(f"{k} primes of {PRIME_BITS} bits leave too little slack above {p:#x}")
        roots_a = [_signed_root(-pow(p * (self.M // m), -1, m), m) for m in self.a]
        roots_b = [_signed_root(pow(self.M * (self.N // m), -1, m), m) for m in self.b]
        self.scales = [g for g, _ in roots_a + roots_b]
        self._sign_a, self._sign_b = [e for _, e in roots_a], [e for _, e in roots_b]
        self.modulus = np.array(self.moduli, np.float64)
        self.inverse = 1.0 / self.modulus

    # constants of the reduction, named as in the module's text

    @cached_property
    def e1(self) -> Floats:
        def entry(i: int, j: int) -> float:
            b = self.b[j]
            factor = self.p * pow(self.M * (self.N // b), -1, b) * self._sign_b[j]
            return float(balanced(self.M // self.a[i] * self._sign_a[i] * factor, b))

        return np.array([[entry(i, j) for i in range(self.k)] for j in range(self.k)])

    @cached_property
    def e2(self) -> Floats:
        """(k + 1, k): the base extension to A, and in the last row the weights that give alpha."""
        rows = [
            [float(balanced(self.N // b * e * g, a)) for b, e in zip(self.b, self._sign_b, strict=True)]
            for a, g in zip(self.a, self.scales, strict=False)
        ]
        return np.array([*rows, [e / b for b, e in zip(self.b, self._sign_b, strict=True)]])

    @cached_property
    def minus_n(self) -> Floats:
        return np.array([float(balanced(-self.N * g, a)) for a, g in zip(self.a, self.scales, strict=False)])

    @cached_property
    def weight_b(self) -> Floats:
        signed = zip(self.b, self._sign_b, self.scales[self.k :], strict=True)
        return np.array([float(balanced(self.N // b * e * g, b)) for b, e, g in signed])

    # arithmetic under jit

    def red(self, t: jax.Array, base: slice = slice(None)) -> jax.Array:
        """Residues of |t| < 2^53 made balanced; the element's value does not change."""
        m, inverse = column(self.modulus[base], t), column(self.inverse[base], t)
        return t - m * jnp.round(t * inverse)

    def reduce(self, t: jax.Array) -> jax.Array:
        """The element t / M mod p of a sum of products `t` of residues: one Montgomery reduction."""
        a, b = slice(0, self.k), slice(self.k, None)
        xi = self.red(t[a], a)
        x = self.red(_dot(self.e1, xi) + t[b], b)
        back = _dot(self.e2, x)
        alpha = jnp.round(back[self.k :])
        in_a = self.red(back[: self.k] + alpha * column(self.minus_n, t), a)
        return jnp.concatenate([in_a, self.red(x * column(self.weight_b, t), b)])

    def mul(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return self.reduce(x * y)

    # constants from integers, and the way back (slow: a few elements, tests)

    def residues(self, values: Sequence[int]) -> Floats:
        """Integers as they are (not in Montgomery form) -> float64[2k, n]."""
        table = [[balanced(v * g, m) for v in values] for m, g in zip(self.moduli, self.scales, strict=True)]
        return np.array(table, np.float64).reshape(2 * self.k, len(values))

    def encode_ints(self, values: Sequence[int]) -> Floats:
        """Integers mod p -> Montgomery residues float64[2k, n]."""
        return self.residues([v * self.M % self.p for v in values])

    def value(self, residues: npt.ArrayLike, base: str = "b") -> int:
        """The integer that one column of residues stands for, read from one base alone."""
        column_ = np.asarray(residues, np.float64)
        primes, offset, product = (self.b, self.k, self.N) if base == "b" else (self.a, 0, self.M)
        total = 0
        for j, m in enumerate(primes):
            cofactor = product // m
            total += int(column_[offset + j]) * cofactor * pow(cofactor * self.scales[offset + j], -1, m)
        return balanced(total, product)

    def decode_ints(self, residues: npt.ArrayLike) -> list[int]:
        """Montgomery residues [2k, n] -> integers mod p."""
        back = pow(self.M, -1, self.p)
        return [self.value(c) * back % self.p for c in np.asarray(residues).T]


def _dot(matrix: Floats, x: jax.Array) -> jax.Array:
    # on a GPU float64 matrix products must not be computed in fewer bits
    return jnp.tensordot(jnp.asarray(matrix), x, axes=1, precision="highest")
