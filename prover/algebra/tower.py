"""Fp and Fp2 = Fp[u]/(u^2 + 1) under one layout: float64[2k, e, n], e = 1 or 2 components.

`product` leaves its result unreduced, so that sums of products cost one reduction. The formulas of `curve` serve both
groups through these functions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    """x * y without reduction; for Fp2 (x0 y0 - x1 y1) + (x0 y1 + x1 y0) u. Doubles the bound of a residue's product
    in Fp2."""
    if x.shape[1] == 1:
        return x * y
    x0, x1, y0, y1 = x[:, 0], x[:, 1], y[:, 0], y[:, 1]
    return jnp.stack([x0 * y0 - x1 * y1, x0 * y1 + x1 * y0], 1)


def times_3b(x: jax.Array) -> jax.Array:
    """x times 3b, b the curve's constant: 12 on G1, 12 (1 + u) on G2. Residues grow by 12 or 24: reduce (`red`)
    before a product."""
    if x.shape[1] == 1:
        return x * 12.0
    return 12.0 * jnp.stack([x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]], 1)


def conjugate(x: jax.Array) -> jax.Array:
    """x0 - x1 u (x itself in Fp)."""
    return x if x.shape[1] == 1 else jnp.stack([x[:, 0], -x[:, 1]], 1)
