"""G1 and G2 of BLS12-381 (y^2 = x^3 + b, a = 0) on residues: complete formulas of Renes, Costello and Batina (2015,
section 3.2), correct for every pair of points of odd order, infinity and equal or opposite points included.

A projective point array is float64[2k, 3, e, n]: X, Y, Z, infinity = (0, 1, 0); an affine one float[2k, 2, e, n].
Bounds, for inputs reduced (below 9 p in size, residues below 2^24). Residues: a product of sums is below 2^50,
doubled in Fp2. In `_finish` t3 and t4 are below 3 * 2^24, as is 3 t0 in G1, and all others are made balanced: sums of
two products are below 12 * 2^48, in G2 (where t0 is balanced too) below 6 * 2^48, doubled; those of `double` are below
2^50, doubled in Fp2. So all are below 2^52.
Sizes, in G2, which is the larger: times_3b of a reduced element is below 216 p, of y3 (27 p) below 648 p, so the sums
of products of `_finish` stay below 2 (225^2 + 648 * 27) p^2 < 2^18 p^2; in `double` low < 657 p, high < 225 p, and 2
(657 * 225 + 216 * 72) p^2 < 2^19 p^2. Hence every output is reduced again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

from prover.algebra import constants
from prover.algebra.fields import FP
from prover.algebra.rns import Floats
from prover.algebra.tower import product, times_3b


@dataclass(frozen=True)
class Group:
    """G1 or G2: `degree` components a coordinate, bytes of an uncompressed point, the standard generator's
    coordinates."""

    name: str
    degree: int
    generator: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def size(self) -> int:
        """Bytes of an uncompressed affine point: 96 or 192."""
        return 2 * self.degree * FP.size

    @property
    def affine_columns(self) -> int:
        """Residues of an affine point: 64 or 128."""
        return 4 * FP.k * self.degree

    @property
    def columns(self) -> int:
        """Residues of a projective point: 96 or 192."""
        return 6 * FP.k * self.degree

    @cached_property
    def identity(self) -> Floats:
        """The point at infinity, float64[2k, 3, e, 1]."""
        point = np.zeros((2 * FP.k, 3, self.degree, 1))
        point[:, 1, 0] = FP.encode_ints([1])
        return point


G1: Final = Group("G1", 1, ((constants.G1_X,), (constants.G1_Y,)))
G2: Final = Group("G2", 2, (constants.G2_X, constants.G2_Y))


def _finish(t0: jax.Array, t1: jax.Array, t2: jax.Array, t3: jax.Array, t4: jax.Array, y3: jax.Array) -> jax.Array:
    """The last three reductions of an addition, from t0 = X1X2, t1 = Y1Y2, t2 = Z1Z2 and the cross sums
    t3 = X1Y2 + X2Y1, t4 = Y1Z2 + Y2Z1, y3 = X1Z2 + X2Z1."""
    b_t2 = times_3b(t2)
    z3, t1 = FP.red(t1 + b_t2), FP.red(t1 - b_t2)
    y3, t0 = FP.red(times_3b(y3)), FP.red(3.0 * t0) if t0.shape[1] > 1 else 3.0 * t0
    return _reduced(
        [
            product(t3, t1) - product(t4, y3),
            product(t1, z3) + product(y3, t0),
            product(z3, t4) + product(t0, t3),
        ]
    )


def _reduced(parts: list[jax.Array]) -> jax.Array:
    """The elements [2k, e, n] reduced together: [2k, parts, e, n].

    Components lie side by side as matrices, each computed by a loop of its own: a stack of them would be one loop in
    which XLA chooses among all parts, element by element, and computes what they share once for each.
    """
    components = [part[:, i] for part in parts for i in range(part.shape[1])]
    return FP.reduce(jnp.concatenate(components, 1)).reshape(2 * FP.k, len(parts), parts[0].shape[1], -1)


def add(p: jax.Array, q: jax.Array) -> jax.Array:
    """p + q, both projective: 9 reductions."""
    x1, y1, z1, x2, y2, z2 = p[:, 0], p[:, 1], p[:, 2], q[:, 0], q[:, 1], q[:, 2]
    pairs = [(x1, x2), (y1, y2), (z1, z2), (x1 + y1, x2 + y2), (y1 + z1, y2 + z2), (x1 + z1, x2 + z2)]
    t = FP.reduce(jnp.stack([product(a, b) for a, b in pairs], 1))
    t0, t1, t2 = t[:, 0], t[:, 1], t[:, 2]
    return _finish(t0, t1, t2, t[:, 3] - t0 - t1, t[:, 4] - t1 - t2, t[:, 5] - t0 - t2)


def add_affine(p: jax.Array, q: jax.Array, finite: jax.Array) -> jax.Array:
    """p + q, q affine [2k, 2, e, n] where `finite` [n] is 1.0; where it is 0.0, q must be (0, 1) and the sum is p. 8
    reductions."""
    x1, y1, z1, x2, y2 = p[:, 0], p[:, 1], p[:, 2], q[:, 0], q[:, 1]
    pairs = [(x1, x2), (y1, y2), (x1 + y1, x2 + y2), (y2, z1), (x2, z1)]
    t = FP.reduce(jnp.stack([product(a, b) for a, b in pairs], 1))
    t0, t1 = t[:, 0], t[:, 1]
    return _finish(t0, t1, z1 * finite, t[:, 2] - t0 - t1, t[:, 3] + y1 * finite, t[:, 4] + x1 * finite)


def double(p: jax.Array) -> jax.Array:
    """2 p, projective, infinity included: 7 reductions (algorithm 9 of the same paper)."""
    x, y, z = p[:, 0], p[:, 1], p[:, 2]
    t = FP.reduce(jnp.stack([product(y, y), product(z, z), product(x, y), product(y, z)], 1))
    yy, bzz, xy, yz = t[:, 0], FP.red(times_3b(t[:, 1])), t[:, 2], t[:, 3]
    low, high = FP.red(yy - 3.0 * bzz), yy + bzz
    eight = FP.red(8.0 * yy)
    return FP.reduce(
        jnp.stack([2.0 * product(low, xy), product(low, high) + product(bzz, eight), product(eight, yz)], 1)
    )


def negate_if(p: jax.Array, negative: jax.Array) -> jax.Array:
    """-p where `negative` [n] is true; p is [2k, 2 or 3, e, n]."""
    sign = jnp.where(negative, -1.0, 1.0).astype(p.dtype)
    return p.at[:, 1].multiply(sign)
