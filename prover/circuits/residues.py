"""Residues of Fr as the products of a circuit's rows need them: balancing, reducing and comparing many at once.

`prover.algebra.rns` has the system: an element is 22 residues, each below 2^24 in size.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from prover.algebra.fields import FR, Field
from prover.algebra.kernels import Residues, in_threads, kernel, tiles

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def balanced_integers(sums: Integers) -> Integers:
    """Residues [n, 22] of integers below 2^58 made balanced, so exact in float32."""
    modulus = FR.modulus.astype(np.int64)
    return sums - np.rint(sums * FR.inverse).astype(np.int64) * modulus


def balanced_floats(sums: Floats) -> Floats:
    """Residues [22, n] of integers below 2^53 made balanced, so exact in float32."""
    sums -= np.rint(sums * FR.inverse[:, None]) * FR.modulus[:, None]
    return sums


def reduced(sums: Residues, threads: int = 1) -> Residues:
    """One Montgomery reduction of each sum of products, float32[n, 22] balanced -> elements float32[22, n]."""
    out = np.empty((sums.shape[1], len(sums)), np.float32)

    def work(columns: slice) -> None:
        part = sums[columns].T
        out[:, columns] = np.asarray(_reduced(_padded(part), field=FR))[:, : part.shape[1]]

    _over_tiles(work, len(sums), threads)
    return out


def unsatisfied(a: Residues, b: Residues, c: Residues, threads: int = 1) -> NDArray[np.intp]:
    """The rows, ascending, in which a * b differs from c; each float32[22, rows]."""
    wrong = np.empty(a.shape[1], bool)

    def work(columns: slice) -> None:
        parts = [_padded(array[:, columns]) for array in (a, b, c)]
        wrong[columns] = np.asarray(_differs(*parts, field=FR))[: len(wrong[columns])]

    _over_tiles(work, a.shape[1], threads)
    return np.flatnonzero(wrong)


def is_zero_sum(elements: Residues) -> bool:
    """Whether the elements, float32[22, n], n < 2^20, add up to 0."""
    total = balanced_floats(elements.sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
    return bool(FR.zeros(total)[0])


def _over_tiles(work: Callable[[slice], None], count: int, threads: int) -> None:
    width = tiles().field
    in_threads(work, [slice(start, start + width) for start in range(0, count, width)], threads)


def _padded(part: Residues) -> Residues:
    """Zeros appended to a tile's columns, so that every tile runs the same program."""
    missing = tiles().field - part.shape[1]
    return np.pad(part, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(part)


@kernel("field")
def _reduced(sums: jax.Array, field: Field) -> jax.Array:
    return field.reduce(sums.astype(jnp.float64)).astype(jnp.float32)


@kernel("field")
def _differs(a: jax.Array, b: jax.Array, c: jax.Array, field: Field) -> jax.Array:
    product = field.mul(a.astype(jnp.float64), b.astype(jnp.float64))
    return ~field.is_zero(field.red(product - c.astype(jnp.float64)))
