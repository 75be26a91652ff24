"""Numbers as 16-bit limbs in numpy: carries and the final reduction of `fields.decode`. Limb-major int64[limbs, n]."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import numpy.typing as npt

Limbs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

BITS: Final = 16
_MASK: Final = (1 << BITS) - 1


def from_int(value: int, count: int) -> npt.NDArray[np.float64]:
    """The `count` limbs of a non-negative integer, least significant first."""
    return np.array([value >> (BITS * i) & _MASK for i in range(count)], np.float64)


def carry(limbs: Limbs) -> Limbs:
    """Propagate signed carries in place; the last limb keeps the sign and whatever is left."""
    for low, high in itertools.pairwise(limbs):
        high += low >> BITS
        low &= _MASK
    return limbs


def wrap(limbs: Limbs) -> Limbs:
    """Propagate carries in place, modulo 2^(16 limbs)."""
    carry(limbs)[-1] &= _MASK
    return limbs


def reduce_mod(limbs: Limbs, p: int) -> Limbs:
    """Limbs of values in [0, 2^15 p), carries done, to the least residue mod p. One limb more than p needs."""
    modulus = from_int(p, len(limbs)).astype(np.int64)[:, None]
    weights = np.ldexp(1.0, [BITS * (i - len(limbs)) for i in range(len(limbs))])
    # the top limbs give the quotient to 2^-30, so after rounding down it is right or one too small or large
    top = weights[-5:] @ limbs[-5:].astype(np.float64)
    quotient = np.floor(top / float(p / (1 << (BITS * len(limbs))))).astype(np.int64)
    carry(np.subtract(limbs, quotient * modulus, out=limbs))
    for sign in (1, -1):
        wrong = limbs[-1] < 0 if sign > 0 else _at_least(limbs, modulus)
        if wrong.any():
            limbs[:, wrong] = carry(limbs[:, wrong] + sign * modulus)
    return limbs


def are_bits(values: Bytes) -> npt.NDArray[np.bool_]:
    """Which of the integers uint8[n, 32] are 0 or 1."""
    words = np.ascontiguousarray(values).view("<u8")
    found: npt.NDArray[np.bool_] = (words[:, 0] <= 1) & ~(words[:, 1] | words[:, 2] | words[:, 3]).astype(bool)
    return found


def divide(limbs: Limbs, divisor: int) -> tuple[Limbs, Limbs]:
    """Quotient and remainder of carried non-negative limbs [l, n], by a product with the divisor's reciprocal."""
    shift = BITS * (len(limbs) + 1)
    # at most one too small, since the reciprocal is less than 2^-shift too small
    quotient = carry(_times(limbs, (1 << shift) // divisor))[len(limbs) + 1 :]
    product = _times(quotient, divisor)
    rest = carry(np.pad(limbs, ((0, max(0, len(product) - len(limbs))), (0, 0)))[: len(product)] - product)
    again = _at_least(rest, from_int(divisor, len(rest)).astype(np.int64)[:, None])
    quotient[0] += again
    rest[:, again] -= from_int(divisor, len(rest)).astype(np.int64)[:, None]
    return carry(quotient), carry(rest)


def _times(limbs: Limbs, factor: int) -> Limbs:
    """The product, carries not yet done."""
    parts = from_int(factor, -(-factor.bit_length() // BITS)).astype(np.int64)
    product = np.zeros((len(limbs) + len(parts), limbs.shape[1]), np.int64)
    for i, part in enumerate(parts):
        product[i : i + len(limbs)] += limbs * part
    return product


def _at_least(limbs: Limbs, modulus: Limbs) -> npt.NDArray[np.bool_]:
    """limbs >= modulus, both non-negative and carried."""
    above = np.ones(limbs.shape[1], bool)
    for limb, m in zip(limbs, modulus[:, 0], strict=True):
        above = (limb > m) | ((limb == m) & above)
    return above


def to_bytes(limbs: Limbs, size: int) -> Bytes:
    """Little-endian bytes uint8[n, size] of carried non-negative limbs."""
    return np.ascontiguousarray(limbs[: size // 2].T.astype("<u2")).view(np.uint8)


def from_bytes(data: Bytes) -> npt.NDArray[np.uint16]:
    """uint8[n, size] little-endian -> uint16[n, size / 2], without copying where the memory allows."""
    return np.ascontiguousarray(data).view("<u2")
