"""Many projective points to affine ones with one inversion a tile (Montgomery's trick), all on the device."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from prover.algebra import lanes, points
from prover.algebra.curve import Group
from prover.algebra.fields import FP, Bools
from prover.algebra.kernels import in_threads, kernel
from prover.algebra.limbs import Bytes
from prover.algebra.points import Rows
from prover.algebra.tower import conjugate, product

#: points of a lane that share an inversion
DEPTH: Final = 64
_INVERSE_EXPONENT: Final = np.array([int(b) for b in bin(FP.p - 2)[2:]], np.int32)


def _one() -> jax.Array:
    return jnp.asarray(FP.encode_ints([1]))


def _invert(x: jax.Array) -> jax.Array:
    """x^(p-2) by square and multiply: one sequence of 381 steps for all lanes."""

    def step(bit: jax.Array, power: jax.Array) -> jax.Array:
        square = FP.mul(power, power)
        result: jax.Array = lax.cond(bit == 1, lambda s: FP.mul(s, x), lambda s: s, square)
        return result

    bits = jnp.asarray(_INVERSE_EXPONENT)
    result: jax.Array = lax.fori_loop(1, len(_INVERSE_EXPONENT), lambda i, p: step(bits[i], p), x)
    return result


def _norm(z: jax.Array) -> jax.Array:
    """The norm of z [2k, e, L] in Fp: z itself, or z0^2 + z1^2; 1 where z is zero (then the point is infinity)."""
    norm = z[:, 0] if z.shape[1] == 1 else FP.reduce(z[:, 0] * z[:, 0] + z[:, 1] * z[:, 1])
    return jnp.where(FP.is_zero(norm), _one(), norm)


@kernel("group")
def _normalise(rows: jax.Array, group: Group) -> jax.Array:
    """Projective rows [DEPTH, L, columns] -> affine rows [DEPTH, L, affine columns]; infinity gives (0, 0)."""

    def split(row: jax.Array) -> jax.Array:
        return row.T.reshape(2 * FP.k, 3, group.degree, -1).astype(jnp.float64)

    def down(before: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return FP.mul(before, _norm(split(row)[:, 2])), before.astype(jnp.float32)

    def up(inverse: jax.Array, x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        point, before = split(x[0]), x[1].astype(jnp.float64)
        of_norm = FP.mul(inverse, before)[:, None]
        z = point[:, 2]
        of_z = of_norm if group.degree == 1 else FP.reduce(conjugate(z) * of_norm)
        affine = FP.reduce(jnp.stack([product(point[:, 0], of_z), product(point[:, 1], of_z)], 1))
        finite = ~jnp.all(FP.is_zero(z), axis=0)
        affine = affine * finite
        return FP.mul(inverse, _norm(z)), affine.reshape(group.affine_columns, -1).T.astype(jnp.float32)

    total, before = lax.scan(down, jnp.broadcast_to(_one(), (2 * FP.k, rows.shape[1])), rows)
    return lax.scan(up, _invert(total), (rows, before), reverse=True)[1]


def normalise(group: Group, rows: Rows, threads: int = 1) -> tuple[Rows, Bools]:
    """Projective rows float32[n, columns] -> (affine rows float32[n, affine columns], which points are infinity).

    The affine row of infinity is `points.infinity_row`.
    """
    width = lanes.lane_count(group)
    tile = width * DEPTH
    out = np.empty((len(rows), group.affine_columns), np.float32)

    def work(start: int) -> None:
        part = rows[start : start + tile]
        padded = np.zeros((tile, group.columns), np.float32)
        padded[: len(part)] = part
        result = np.asarray(_normalise(padded.reshape(DEPTH, width, group.columns), group=group))
        out[start : start + tile] = result.reshape(tile, -1)[: len(part)]

    in_threads(work, range(0, len(rows), tile), threads)
    at_infinity: Bools = np.logical_not(np.any(out, axis=1))
    out[at_infinity] = points.infinity_row(group)
    return out, at_infinity


def to_bytes(group: Group, rows: Rows, at_infinity: Bools, threads: int = 1) -> Bytes:
    """Affine rows -> uncompressed bytes."""
    parts = rows.reshape(len(rows), 2 * FP.k, 2 * group.degree).transpose(2, 1, 0)
    decoded = [FP.decode(np.ascontiguousarray(part), threads) for part in parts]
    return points.from_affine(group, decoded[: group.degree], decoded[group.degree :], at_infinity)
