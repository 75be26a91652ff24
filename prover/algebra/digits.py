"""Scalars as signed digits: sum d_w 2^(c w), |d_w| <= 2^(c-1), so that 2^(c-1) buckets serve 2^c digit values."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from prover.algebra import constants, limbs
from prover.algebra.fields import Bools
from prover.algebra.limbs import Bytes

Digits = npt.NDArray[np.int32]

#: a scalar after `halve` is below 2^254; the carry of the last digit needs one bit more
BITS: Final = 255
MAX_WINDOW: Final = 16


def window_count(window_bits: int, length: int = BITS) -> int:
    return -(-length // window_bits)


def halve(scalars: Bytes) -> tuple[Bytes, Bools]:
    """Scalars uint8[n, 32] above r/2 replaced by r - s, and where that was done: saves a window of digits."""
    words = limbs.from_bytes(scalars).T.astype(np.int64)
    modulus = limbs.from_int(constants.R, len(words)).astype(np.int64)[:, None]
    negated = limbs.carry(modulus - words)
    smaller, undecided = np.zeros(len(scalars), bool), np.ones(len(scalars), bool)
    for negative, word in zip(negated[::-1], words[::-1], strict=True):
        smaller |= undecided & (negative < word)
        undecided &= negative == word
    return limbs.to_bytes(np.where(smaller, negated, words), scalars.shape[1]), smaller


def signed(scalars: Bytes, window_bits: int) -> Digits:
    """Canonical scalars uint8[n, 32] -> int32[windows, n], least significant window first."""
    halved, negative = halve(scalars)
    digits = of_integers(halved, BITS, window_bits)
    digits *= np.where(negative, -1, 1).astype(np.int32)
    return digits


def of_integers(values: Bytes, length: int, window_bits: int) -> Digits:
    """Integers uint8[n, size] below 2^(length - 1), little-endian -> int32[windows, n], least significant first."""
    words = np.concatenate([values, np.zeros((len(values), 8), np.uint8)], axis=1)
    half, mask = 1 << (window_bits - 1), (1 << window_bits) - 1
    digits = np.empty((window_count(window_bits, length), len(values)), np.int32)
    carry = np.zeros(len(values), np.int64)
    for w in range(len(digits)):
        byte, shift = divmod(w * window_bits, 8)
        word = np.ascontiguousarray(words[:, byte : byte + 4]).view("<u4")[:, 0].astype(np.int64)
        value = (word >> shift & mask) + carry
        carry = (value > half).astype(np.int64)
        digits[w] = value - (carry << window_bits)
    return digits
