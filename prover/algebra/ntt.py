"""Number-theoretic transforms over Fr and the quotient h of the QAP, on residues float32[22, m].

A transform of m = n1 * n2 values takes two passes (four-step): sub-transforms of length n1 down the columns, a
product with the twiddles w^(k1 j2), then sub-transforms of length n2. Both work on tiles of columns that stay in the
cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from prover.algebra import constants
from prover.algebra.fields import FR
from prover.algebra.kernels import Residues, in_threads, kernel, tiles
from prover.algebra.limbs import Bytes
from prover.errors import InvalidInput

MAX_LOG2: Final = 24
_K2: Final = 2 * FR.k


class DomainTooLarge(InvalidInput):
    """The evaluation domain is larger than is supported."""

    code = "domain_too_large"


class WrongLength(InvalidInput):
    """A vector is longer than the evaluation domain."""

    code = "wrong_vector_length"


@dataclass(frozen=True)
class _Plan:
    """Tables of one direction of a transform; n1 = 2^l1, n2 = 2^l2."""

    roots1: Residues  # [22, n1]
    roots2: Residues
    twiddles: Residues  # [22, n1, n2]


class Domain:
    """The 2^log2-th roots of unity and their coset by 7, as bellman uses them. Immutable."""

    def __init__(self, log2: int, device: jax.Device | None = None) -> None:
        """Raises DomainTooLarge above 2^24."""
        if not 0 <= log2 <= MAX_LOG2:
            raise DomainTooLarge(f"2^{log2} rows, at most 2^{MAX_LOG2}", field="domain")
        self.log2, self.size, self.device = log2, 1 << log2, device
        self._root = constants.root_of_unity(log2)
        self._scale = pow(self.size, -1, constants.R)
        self._vanishing = pow(constants.GENERATOR, self.size, constants.R) - 1

    # single transforms: values or coefficients, residues [22, up to m] in, residues [22, m] out

    def fft(self, coefficients: Residues) -> Residues:
        """Coefficients -> values at w^i."""
        return self._transform(self._padded(coefficients), self._forward, None)

    def ifft(self, values: Residues) -> Residues:
        """Values at w^i -> coefficients."""
        return self._transform(self._padded(values), self._inverse, self._unscale)

    def coset_fft(self, coefficients: Residues) -> Residues:
        """Coefficients -> values at 7 w^i."""
        shifted = FR.mul_arrays(self._padded(coefficients), self._shift)
        return self._transform(shifted, self._forward, None)

    def coset_ifft(self, values: Residues) -> Residues:
        """Values at 7 w^i -> coefficients."""
        return self._transform(self._padded(values), self._inverse, self._unshift)

    # the quotient

    def quotient(self, a: Residues, b: Residues, c: Residues, threads: int = 1) -> Bytes:
        """Evaluations a, b, c over the rows (up to m of them) -> the m - 1 coefficients of (A B - C) / (X^m - 1),
        uint8[m - 1, 32].

        The coefficient of X^(m-1) is left out: it is zero where the rows are satisfied.
        """
        over_coset = in_threads(self._to_coset, [a, b, c], threads)
        with jax.default_device(self.device):
            numerator = np.asarray(_quotient(*over_coset))
        h = self._transform(numerator, self._inverse, self._divide)
        return FR.decode(h[:, : self.size - 1], threads)

    def _to_coset(self, values: Residues) -> Residues:
        coefficients = self._transform(self._padded(values), self._inverse, self._shift_unscale)
        return self._transform(coefficients, self._forward, None)

    # tables, made when first needed

    @functools.cached_property
    def _forward(self) -> _Plan:
        return _plan(self._root, self.log2)

    @functools.cached_property
    def _inverse(self) -> _Plan:
        return _plan(pow(self._root, -1, constants.R), self.log2)

    @functools.cached_property
    def _shift(self) -> Residues:
        return FR.powers(constants.GENERATOR, self.size)

    @functools.cached_property
    def _unscale(self) -> Residues:
        return self._factor(1, self._scale)

    @functools.cached_property
    def _unshift(self) -> Residues:
        return self._factor(pow(constants.GENERATOR, -1, constants.R), self._scale)

    @functools.cached_property
    def _shift_unscale(self) -> Residues:
        return self._factor(constants.GENERATOR, self._scale)

    @functools.cached_property
    def _divide(self) -> Residues:
        """From the coset back to coefficients and divided by X^m - 1, which is constant on the coset."""
        first = self._scale * pow(self._vanishing, -1, constants.R) % constants.R
        return self._factor(pow(constants.GENERATOR, -1, constants.R), first)

    def _factor(self, base: int, first: int) -> Residues:
        """first * base^k, arranged as the second pass of a transform leaves its output."""
        n1, n2 = _split(self.log2)
        powers = FR.powers(base, self.size, first).reshape(_K2, n2, n1)
        return np.ascontiguousarray(powers[:, _bit_reversal(n2.bit_length() - 1)])

    def _padded(self, values: Residues) -> Residues:
        """Zeros appended up to the domain's size."""
        missing = self.size - values.shape[1]
        if missing < 0 or values.shape[0] != _K2:
            raise WrongLength(f"shape {values.shape} for a domain of {self.size}", field="domain")
        return np.pad(values, [(0, 0), (0, missing)]) if missing else values

    def _transform(self, values: Residues, plan: _Plan, factor: Residues | None) -> Residues:
        with jax.default_device(self.device):
            y = _transform(values, plan.roots1, plan.roots2, plan.twiddles, factor, tile=tiles().fft)
        result: Residues = np.asarray(y)
        return result


def _split(log2: int) -> tuple[int, int]:
    """(n1, n2) with n1 n2 = 2^log2."""
    return 1 << (log2 + 1) // 2, 1 << log2 // 2


def _plan(root: int, log2: int) -> _Plan:
    n1, n2 = _split(log2)
    powers = FR.powers(root, 1 << log2)
    exponents = np.outer(_bit_reversal(n1.bit_length() - 1).astype(np.int64), np.arange(n2)) % (1 << log2)
    roots1, roots2 = (np.ascontiguousarray(powers[:, ::step]) for step in (n2, n1))
    return _Plan(roots1, roots2, powers[:, exponents])


def _reversed(index: int, bits: int) -> int:
    return int(f"{index:0{bits}b}"[::-1], 2) if bits else 0


def _bit_reversal(log2: int) -> npt.NDArray[np.int32]:
    return np.array([_reversed(i, log2) for i in range(1 << log2)], np.int32)


def _one(dimensions: int) -> jax.Array:
    """1 in Montgomery form, to multiply [22, ...] arrays with: reduces them."""
    return jnp.asarray(FR.encode_ints([1]).reshape((_K2,) + (1,) * (dimensions - 1)))


def _sub(x: jax.Array, roots: jax.Array, log2: int) -> jax.Array:
    """Transforms down axis 1 of float64[22, 2^log2, columns]; the output is in bit-reversed order.

    Constant geometry: a stage pairs the upper with the lower half, and interleaves the sums and the turned differences.
    Two stages are done at once, with three reductions instead of four; the last of an odd number turns nothing.
    """
    x = lax.fori_loop(0, log2 // 2, lambda i, x: _two_stages(x, roots, 2 * i), x) if log2 > 1 else x
    if log2 % 2:
        half = 1 << log2 >> 1
        x = FR.red(jnp.stack([x[:, :half] + x[:, half:], x[:, :half] - x[:, half:]], 2)).reshape(x.shape)
    return x


def _two_stages(x: jax.Array, roots: jax.Array, stage: jax.Array) -> jax.Array:
    """Stages `stage` and `stage` + 1, the products of both folded into one: with e the exponent of the first stage's
    root, the second one's is 2 e, and a quarter of the circle lies between the two halves of the first."""
    quarter = x.shape[1] // 4
    x0, x1, x2, x3 = (x[:, i * quarter : (i + 1) * quarter] for i in range(4))
    e = jnp.arange(quarter) >> stage << stage

    def turn(exponent: jax.Array) -> jax.Array:
        return roots[:, exponent % x.shape[1]].astype(jnp.float64)[:, :, None]

    sum0, sum1, difference0, difference1 = x0 + x2, x1 + x3, x0 - x2, x1 - x3
    turned = [
        (sum0 - sum1) * turn(2 * e),
        difference0 * turn(e) + difference1 * turn(e + quarter),
        difference0 * turn(3 * e) - difference1 * turn(3 * e + quarter),
    ]
    total = FR.red(sum0 + sum1)[:, :, None]
    return jnp.concatenate([total, FR.reduce(jnp.stack(turned, 2))], 2).reshape(x.shape)


def _by_tiles(work: Callable[..., jax.Array], arrays: tuple[jax.Array, ...], tile: int) -> jax.Array:
    """`work` on tiles of the last axis of [22, n, columns]; its outputs [tiles, 22, n, tile]."""
    columns = arrays[0].shape[2]
    width = min(tile, columns)

    def one(start: jax.Array) -> jax.Array:
        return work(*(lax.dynamic_slice_in_dim(x, start, width, 2) for x in arrays))

    result: jax.Array = lax.map(one, jnp.arange(0, columns, width))
    return result


@kernel("tile")
def _transform(
    x: jax.Array, roots1: jax.Array, roots2: jax.Array, twiddles: jax.Array, factor: jax.Array | None, tile: int
) -> jax.Array:
    """The transform of float32[22, m] in natural order, times `factor` [22, n2, n1] if given.

    The rows of `twiddles` are in the bit-reversed order in which `_sub` leaves k1, those of `factor` in that of k2.
    """
    _, n1, n2 = twiddles.shape
    l1, l2 = n1.bit_length() - 1, n2.bit_length() - 1

    def first(x: jax.Array, turn: jax.Array) -> jax.Array:
        return FR.mul(_sub(x.astype(jnp.float64), roots1, l1), turn.astype(jnp.float64)).astype(jnp.float32)

    def second(y: jax.Array, *factor: jax.Array) -> jax.Array:
        scale = factor[0].astype(jnp.float64) if factor else _one(3)
        return FR.mul(_sub(y.astype(jnp.float64), roots2, l2), scale).astype(jnp.float32)

    y = _by_tiles(first, (x.reshape(_K2, n1, n2), twiddles), tile)  # [j2 tiles, 22, k1 reversed, j2]
    y = y.transpose(1, 0, 3, 2).reshape(_K2, n2, n1)[:, :, _bit_reversal(l1)]  # [22, j2, k1]
    z = _by_tiles(second, (y,) if factor is None else (y, factor), tile)  # [k1 tiles, 22, k2 reversed, k1]
    return z[:, :, _bit_reversal(l2)].transpose(1, 2, 0, 3).reshape(_K2, n1 * n2)


@kernel()
def _quotient(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """a b - c on the coset."""

    def part(x: tuple[jax.Array, ...]) -> jax.Array:
        a, b, c = (v.astype(jnp.float64) for v in x)
        return FR.reduce(a * b - c * _one(2)).astype(jnp.float32)

    width = min(4096, a.shape[1])
    split = tuple(v.reshape(_K2, -1, width).transpose(1, 0, 2) for v in (a, b, c))
    result: jax.Array = lax.map(part, split).transpose(1, 0, 2).reshape(a.shape)
    return result
