"""Programs that work on many points side by side: L lanes, each adding its own sequence of points.

Every program has one shape for a group and takes the number of steps as an argument, so it compiles once; the host
cuts the work into tiles. Points come in as rows (`points.Rows`), already gathered, because a gather inside the loop
costs more.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from prover.algebra import curve
from prover.algebra.curve import Group
from prover.algebra.fields import FP
from prover.algebra.kernels import kernel, tiles
from prover.algebra.points import Rows


def lane_count(group: Group) -> int:
    """Lanes of a tile: an Fp2 point takes twice the cache."""
    return tiles().lanes // group.degree


def _columns(rows: jax.Array, coordinates: int, degree: int) -> jax.Array:
    """Rows [L, 2k * coordinates * e] -> float64[2k, coordinates, e, L]."""
    return rows.T.reshape(2 * FP.k, coordinates, degree, -1).astype(jnp.float64)


def _rows(points: jax.Array) -> jax.Array:
    return points.reshape(-1, points.shape[-1]).T.astype(jnp.float32)


def identities(group: Group) -> npt.NDArray[np.float64]:
    """Lanes that have added nothing yet: float64[2k, 3, e, L]."""
    return np.broadcast_to(group.identity, (*group.identity.shape[:3], lane_count(group))).copy()


@kernel("group")
def add_steps(lanes: jax.Array, rows: jax.Array, entries: jax.Array, steps: jax.Array, group: Group) -> jax.Array:
    """Add rows[s] to the lanes for each s < steps.

    lanes float64[2k, 3, e, L]; rows float32[S, L, affine columns]; entries int32[S, L]: 0 where there is nothing to
    add (the row must be infinity's), negative where the point is to be negated.
    """

    def step(s: jax.Array, sums: jax.Array) -> jax.Array:
        point = curve.negate_if(_columns(rows[s], 2, group.degree), entries[s] < 0)
        return curve.add_affine(sums, point, (entries[s] != 0).astype(jnp.float64))

    result: jax.Array = lax.fori_loop(0, steps, step, lanes)
    return result


@kernel()
def to_rows(lanes: jax.Array) -> jax.Array:
    """Lanes -> projective rows float32[L, columns]."""
    return _rows(lanes)


@kernel("group")
def add_pairs(left: jax.Array, right: jax.Array, group: Group) -> jax.Array:
    """Sums of two tiles of projective rows [L, columns]."""
    return _rows(curve.add(_columns(left, 3, group.degree), _columns(right, 3, group.degree)))


@kernel("group")
def running_sums(state: jax.Array, rows: jax.Array, steps: jax.Array, group: Group) -> jax.Array:
    """Running sums from the last row down: state [2, 2k, 3, e, L] holds sum x_i and sum i x_i of the rows seen so far.

    rows float32[S, L, columns], of which the first `steps` are taken in order; the caller gives the highest first.
    """

    def step(s: jax.Array, state: jax.Array) -> jax.Array:
        weighted = curve.add(state[1], state[0])
        return jnp.stack([curve.add(state[0], _columns(rows[s], 3, group.degree)), weighted])

    result: jax.Array = lax.fori_loop(0, steps, step, state)
    return result


@kernel("group")
def double_times(rows: jax.Array, times: jax.Array, group: Group) -> jax.Array:
    """2^times * point for each of a tile of projective rows [L, columns]."""
    points = _columns(rows, 3, group.degree)
    return _rows(lax.fori_loop(0, times, lambda _, p: curve.double(p), points))


def affine_as_projective(rows: Rows, group: Group) -> Rows:
    """Affine rows -> projective rows with Z = 1; infinity's row (0, 1) is not treated: callers leave it out."""
    x_y = rows.reshape(len(rows), 2 * FP.k, 2, group.degree)
    one = group.identity[:, 1:2, :, 0].astype(np.float32)
    z = np.broadcast_to(one, (len(rows), *one.shape))
    return np.concatenate([x_y, z], axis=2).reshape(len(rows), group.columns)
