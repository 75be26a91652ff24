"""Programs that work on many points side by side: tiles of L lanes, each lane adding its own sequence of points.

A call takes a batch of up to B tiles, one after the other, so that a call is long beside what it costs to make. Every
program has one shape for a group and takes the number of steps of each tile as an argument, so it compiles once; the
host cuts the work. Points come in as rows (`points.Rows`), already gathered, because a gather inside the loop costs
more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from prover.algebra import curve
from prover.algebra.curve import Group
from prover.algebra.fields import FP
from prover.algebra.kernels import Place, kernel, place, put, shares, tiles
from prover.algebra.points import Rows

Counts = npt.NDArray[np.int32]


def lane_count(group: Group) -> int:
    """Lanes of a tile: an Fp2 point takes twice the cache."""
    return tiles().lanes // group.degree


def sums_lane_count(group: Group) -> int:
    """Lanes of a tile of running sums, which keep two points each: half as many, in twice as many tiles a batch."""
    return lane_count(group) // 2


def columns(rows: jax.Array, coordinates: int, degree: int) -> jax.Array:
    """Rows [L, 2k * coordinates * e] -> float64[2k, coordinates, e, L]."""
    return rows.T.reshape(2 * FP.k, coordinates, degree, -1).astype(jnp.float64)


def to_rows(points: jax.Array) -> jax.Array:
    """float64[2k, coordinates, e, L] -> rows float32[L, 2k * coordinates * e]."""
    return points.reshape(-1, points.shape[-1]).T.astype(jnp.float32)


@functools.lru_cache(maxsize=16)
def _identities(group: Group, kinds: int, _place: Place) -> jax.Array:
    shape = (shares() * kinds * tiles().batch, kinds, *group.identity.shape[:3], lane_count(group) // kinds)
    return put(np.broadcast_to(group.identity, shape).copy(), cut=True)


def identities(group: Group, kinds: int) -> jax.Array:
    """A batch of lanes that have added nothing yet, at this thread's place: float64[kinds * B, kinds, 2k, 3, e,
    L / kinds], B for each device."""
    return _identities(group, kinds, place())


def _batch(
    state: jax.Array, steps: jax.Array, step: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
) -> jax.Array:
    """For every tile t with steps[t] > 0, state[t] after step(t, s, state[t]) for s < steps[t]. Such tiles come
    first."""

    def tile(t: jax.Array, state: jax.Array) -> jax.Array:
        done = lax.fori_loop(0, steps[t], lambda s, lanes: step(t, s, lanes), state[t])
        result: jax.Array = lax.dynamic_update_index_in_dim(state, done, t, 0)
        return result

    result: jax.Array = lax.fori_loop(0, jnp.sum(steps > 0), tile, state)
    return result


def _batch_rows(state: jax.Array) -> jax.Array:
    """State [B, kinds, ...] -> projective rows float32[B, kinds, L, columns]."""
    batch, kinds = state.shape[:2]
    return state.reshape(batch, kinds, -1, state.shape[-1]).transpose(0, 1, 3, 2).astype(jnp.float32)


@kernel("group", cut=(True, True, True, True))
def add_steps(
    state: jax.Array, rows: jax.Array, entries: jax.Array, steps: jax.Array, group: Group
) -> tuple[jax.Array, jax.Array]:
    """Add rows[t, s] to the lanes of tile t for each s < steps[t]: (state, the sums as projective rows).

    state float64[B, 1, 2k, 3, e, L]; rows float32[B, S, L, affine columns]; entries int32[B, S, L]: 0 where there is
    nothing to add (the row must be infinity's), negative where the point is to be negated. Rows float32[B, 1, L,
    columns].
    """

    def step(t: jax.Array, s: jax.Array, lanes: jax.Array) -> jax.Array:
        entry = entries[t, s]
        point = curve.negate_if(columns(rows[t, s], 2, group.degree), entry < 0)
        return curve.add_affine(lanes[0], point, (entry != 0).astype(jnp.float64))[None]

    state = _batch(state, steps, step)
    return state, _batch_rows(state)


@kernel("group", cut=(True, True, True))
def running_sums(state: jax.Array, rows: jax.Array, steps: jax.Array, group: Group) -> tuple[jax.Array, jax.Array]:
    """Running sums: (state, the sums as projective rows).

    state float64[2B, 2, 2k, 3, e, L / 2] holds, of the points seen so far, their sum and the sum of their places, the
    last one having place 0. rows float32[2B, S, L / 2, columns] are projective; tile t takes the first steps[t].
    """

    def step(t: jax.Array, s: jax.Array, lanes: jax.Array) -> jax.Array:
        # one addition after the other, so that the cache holds one's intermediates at a time
        both = (lanes[0], curve.add(lanes[1], lanes[0]))
        plain, weighted = lax.optimization_barrier(both)  # type: ignore[no-untyped-call]
        return jnp.stack([curve.add(plain, columns(rows[t, s], 3, group.degree)), weighted])

    state = _batch(state, steps, step)
    return state, _batch_rows(state)


@kernel("group", cut=(True, True))
def add_pairs(left: jax.Array, right: jax.Array, group: Group) -> jax.Array:
    """Sums of two tiles of projective rows [L, columns]."""
    return to_rows(curve.add(columns(left, 3, group.degree), columns(right, 3, group.degree)))


@kernel("group")
def double_times(rows: jax.Array, times: jax.Array, group: Group) -> jax.Array:
    """2^times * point for each of a tile of projective rows [L, columns]."""
    points = columns(rows, 3, group.degree)
    return to_rows(lax.fori_loop(0, times, lambda _, p: curve.double(p), points))


def affine_as_projective(rows: Rows, group: Group) -> Rows:
    """Affine rows -> projective rows with Z = 1; infinity's row (0, 1) is not treated: callers leave it out."""
    x_y = rows.reshape(len(rows), 2 * FP.k, 2, group.degree)
    one = group.identity[:, 1:2, :, 0].astype(np.float32)
    z = np.broadcast_to(one, (len(rows), *one.shape))
    return np.concatenate([x_y, z], axis=2).reshape(len(rows), group.columns)
