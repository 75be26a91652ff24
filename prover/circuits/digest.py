"""Digests of a circuit's rows, by which two recordings are compared, and the first row where they differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from prover.circuits.matrices import Matrices, SparseRows
from prover.circuits.recorder import Int32, UInt16

#: rows, or values, between two checkpoints
CHECKPOINT_STEP = 4096
_TERM_WORDS = 9  # column, coefficient


@dataclass(frozen=True, slots=True)
class Digest:
    """SHA-256 in hex, and the first 16 hex digits of that of the prefix at each checkpoint, the end included."""

    sha256: str
    checkpoints: tuple[str, ...]

    def first_difference(self, other: Digest) -> range | None:
        """The rows among which the first difference lies, as far as checkpoints tell; None when equal."""
        for i, (mine, theirs) in enumerate(zip(self.checkpoints, other.checkpoints, strict=False)):
            if mine != theirs:
                return range(i * CHECKPOINT_STEP, (i + 1) * CHECKPOINT_STEP)
        if self.sha256 == other.sha256:
            return None
        start = min(len(self.checkpoints), len(other.checkpoints)) * CHECKPOINT_STEP
        return range(start, start + CHECKPOINT_STEP)


def r1cs_digest(matrices: Matrices) -> Digest:
    """Over all rows in order.

    A row is, for each of A, B, C: u32 number of terms, then per term u32 column and 32 bytes of coefficient.
    """
    starts = range(0, matrices.num_constraints, CHECKPOINT_STEP)
    ends = (min(start + CHECKPOINT_STEP, matrices.num_constraints) for start in starts)
    return _digest(row_bytes(matrices, start, end) for start, end in zip(starts, ends, strict=True))


def elements_digest(elements: NDArray[np.uint8]) -> Digest:
    """Over field elements, uint8[n, 32] canonical little-endian, in order."""
    return _digest(elements[i : i + CHECKPOINT_STEP].tobytes() for i in range(0, len(elements), CHECKPOINT_STEP))


def first_different_row(left: Matrices, right: Matrices) -> int | None:
    """The first row in which two recordings differ; None when all their rows are equal."""
    shorter = min(left.num_constraints, right.num_constraints)
    for start in range(0, shorter, CHECKPOINT_STEP):
        end = min(start + CHECKPOINT_STEP, shorter)
        if row_bytes(left, start, end) != row_bytes(right, start, end):
            return _bisect(left, right, start, end)
    return None if left.num_constraints == right.num_constraints else shorter


def row_bytes(matrices: Matrices, start: int, end: int) -> bytes:
    """The bytes of the rows start .. end."""
    return _row_words(matrices, start, end).tobytes()


def _bisect(left: Matrices, right: Matrices, start: int, end: int) -> int:
    """The first different row among start .. end, of which one differs."""
    while end - start > 1:
        middle = (start + end) // 2
        if row_bytes(left, start, middle) == row_bytes(right, start, middle):
            start = middle
        else:
            end = middle
    return start


def _digest(chunks: Iterable[bytes]) -> Digest:
    hasher, checkpoints = sha256(), []
    for chunk in chunks:
        hasher.update(chunk)
        checkpoints.append(hasher.hexdigest()[:16])
    return Digest(hasher.hexdigest(), tuple(checkpoints))


def _row_words(matrices: Matrices, start: int, end: int) -> NDArray[np.uint32]:
    """The rows start .. end as little-endian words: a row begins where the sizes of those before it add up to."""
    coefs = matrices.coefs.view("<u4").reshape(-1, 8)
    parts = [_part(matrix, start, end) for matrix in (matrices.a, matrices.b, matrices.c)]
    sizes = sum((1 + _TERM_WORDS * counts for counts, _, _ in parts), np.zeros(end - start, np.int64))
    out = np.empty(int(sizes.sum()), "<u4")
    place = np.cumsum(sizes) - sizes
    for counts, columns, coef in parts:
        out[place] = counts
        before = np.cumsum(counts) - counts
        terms = np.repeat(place + 1 - _TERM_WORDS * before, counts) + _TERM_WORDS * np.arange(len(columns))
        out[terms] = columns
        out[terms[:, None] + np.arange(1, _TERM_WORDS)] = coefs[coef]
        place = place + 1 + _TERM_WORDS * counts
    return out


def _part(matrix: SparseRows, start: int, end: int) -> tuple[NDArray[np.int64], Int32, UInt16]:
    """Of the rows start .. end: number of terms, columns, coefficients."""
    pointers = matrix.indptr[start : end + 1].astype(np.int64)
    terms = slice(pointers[0], pointers[-1])
    return np.diff(pointers), matrix.col[terms], matrix.coef[terms]
