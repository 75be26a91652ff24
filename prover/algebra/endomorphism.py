"""Endomorphisms of the two groups that multiply by a power of the curve's parameter, and scalars cut to match.

With X = 0xd201000000010000 (the parameter is -X) r = X^4 - X^2 + 1. On G1, (x, y) -> (beta x, -y) with a cube root of
unity beta multiplies by X^2; on G2 the negative of psi (untwist, Frobenius, twist) multiplies by X. So a scalar's two
digits to the base X^2, or four to the base X, each go with a base that costs one product, not a hundred doublings.
Sources: Gallant, Lambert, Vanstone (2001); Galbraith, Lin, Scott (2009).
"""

from __future__ import annotations

import functools
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

from prover.algebra import limbs, small
from prover.algebra.constants import P
from prover.algebra.curve import Group
from prover.algebra.fields import FP
from prover.algebra.kernels import in_threads, kernel, tiles
from prover.algebra.limbs import Bytes, Limbs
from prover.algebra.points import Rows, of_generator
from prover.algebra.small import Pair, Point
from prover.algebra.tower import conjugate, product

X: Final = 0xD201000000010000
#: scalars that are cut at a time: their limbs stay in a core's cache
_CHUNK: Final = 1 << 12


def parts(group: Group) -> int:
    """Into how many parts a scalar is cut: 2 on G1, 4 on G2."""
    return 2 * group.degree


def part_bits(group: Group) -> int:
    """The parts are below 2^part_bits."""
    return 128 // group.degree


def split(group: Group, scalars: Bytes) -> Bytes:
    """Canonical scalars uint8[n, 32] -> their digits to the base X^2 or X, uint8[parts, n, 16 or 8]."""
    out = np.empty((parts(group), len(scalars), part_bits(group) // 8), np.uint8)
    for start in range(0, len(scalars), _CHUNK):
        pieces = _digits([limbs.from_bytes(scalars[start : start + _CHUNK]).T.astype(np.int64)], X * X)
        if group.degree == 2:
            pieces = _digits(pieces, X)
        for part, piece in zip(out, pieces, strict=True):
            part[start : start + _CHUNK] = limbs.to_bytes(_sized(piece, group), out.shape[2])
    return out


def _digits(numbers: list[Limbs], base: int) -> list[Limbs]:
    """The two digits of each number, the least significant first."""
    return [digit for number in numbers for digit in limbs.divide(number, base)[::-1]]


def _sized(piece: Limbs, group: Group) -> Limbs:
    """Zero limbs appended up to a part's size."""
    missing = part_bits(group) // limbs.BITS - len(piece)
    return np.pad(piece, ((0, max(0, missing)), (0, 0)))


def images(group: Group, rows: Rows, threads: int = 1) -> Rows:
    """Affine rows float32[n, columns] -> float32[(parts - 1) * n, columns]: what each further digit goes with. Rows of
    infinity give nonsense that no digit may use."""
    found = [rows]
    for _ in range(parts(group) - 1):
        found.append(_image(group, found[-1], threads))
    return np.concatenate(found[1:])


def _image(group: Group, rows: Rows, threads: int) -> Rows:
    width = tiles().field
    out = np.empty_like(rows)
    factors = FP.encode_ints([c for pair in _factors(group) for c in pair[: group.degree]])
    factors = factors.reshape(2 * FP.k, 2, group.degree, 1)

    def work(start: int) -> None:
        part = rows[start : start + width]
        tile = np.zeros((width, group.affine_columns), np.float32)
        tile[: len(part)] = part
        out[start : start + width] = np.asarray(_turned(tile, factors, group=group))[: len(part)]

    in_threads(work, range(0, len(rows), width), threads)
    return out


@kernel("group")
def _turned(rows: jax.Array, factors: jax.Array, group: Group) -> jax.Array:
    """Conjugates of x and y of a tile of affine rows, times the factors [2k, 2, e, 1]."""
    point = rows.T.reshape(2 * FP.k, 2, group.degree, -1).astype(jnp.float64)
    turned = FP.reduce(jnp.stack([product(conjugate(point[:, i]), factors[:, i]) for i in range(2)], 1))
    return turned.reshape(group.affine_columns, -1).T.astype(jnp.float32)


@functools.cache
def _factors(group: Group) -> tuple[Pair, Pair]:
    """By what x and y are multiplied: the candidate under which the generator goes to its multiple."""
    x, y = ((*c, 0)[:2] for c in group.generator)
    wanted = _multiple(((x[0], x[1]), (y[0], y[1]), (1, 0)), X ** (2 // group.degree), group.degree)
    for factors in _candidates(group):
        image = tuple(small.mul(_conjugate(c), f) for c, f in zip(((x[0], x[1]), (y[0], y[1])), factors, strict=True))
        if small.to_bytes(group, (image[0], image[1], (1, 0))).tobytes() == small.to_bytes(group, wanted).tobytes():
            return factors
    raise AssertionError(f"no endomorphism of {group.name} found for {of_generator(group).tobytes().hex()}")


def _candidates(group: Group) -> list[tuple[Pair, Pair]]:
    """On G1 both cube roots of unity, and -1 for y; on G2 the twist's factor and its inverse, negated."""
    minus_one: Pair = (P - 1, 0)
    if group.degree == 1:
        roots = {pow(g, (P - 1) // 3, P) for g in range(2, 10)} - {1}
        return [((root, 0), minus_one) for root in sorted(roots)]
    found = []
    for inverse in (1, -1):
        cube, square = (_power((1, 1), inverse * (P - 1) // n % (P * P - 1)) for n in (3, 2))
        found.append((cube, small.mul(square, minus_one)))
    return found


def _conjugate(x: Pair) -> Pair:
    return x[0], -x[1] % P


def _power(x: Pair, exponent: int) -> Pair:
    result: Pair = (1, 0)
    for bit in bin(exponent)[2:]:
        result = small.mul(result, result)
        result = small.mul(result, x) if bit == "1" else result
    return result


def _multiple(point: Point, factor: int, degree: int) -> Point:
    total = small.INFINITY
    for bit in bin(factor)[2:]:
        total = small.shift(total, 1, degree)
        total = small.add(total, point, degree) if bit == "1" else total
    return total
