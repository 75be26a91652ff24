"""Sparse products of matrix and witness against plain sums."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from prover.algebra.fields import FR, NonCanonical
from prover.algebra.sparse import MAX_TERMS, InvalidMatrix, SparseMatrix

COEFFICIENTS = [1, 2, FR.p - 1, 1 << 200, 0, 7]
Index = npt.NDArray[Any]


def csr(rows: list[list[tuple[int, int]]], dtype: npt.DTypeLike = np.uint32) -> tuple[Index, Index, Index]:
    """Rows of (column, number of the coefficient) -> indptr, col, coef_index."""
    terms = [t for row in rows for t in row]
    lengths = np.cumsum([0, *(len(r) for r in rows)])
    return (
        np.array(lengths, dtype),
        np.array([c for c, _ in terms], dtype),
        np.array([k for _, k in terms], np.uint16),
    )


def check(rows: list[list[tuple[int, int]]], witness: list[int], threads: int = 1) -> None:
    matrix = SparseMatrix(*csr(rows), FR.bytes_of(COEFFICIENTS))
    found = matrix.product(FR.encode(FR.bytes_of(witness)), threads=threads)
    expected = [sum(COEFFICIENTS[k] * witness[c] for c, k in row) % FR.p for row in rows]
    assert FR.ints_of(FR.decode(found)) == expected
    assert np.abs(found).max(initial=0) <= 1 << 24


def test_rows_of_every_kind() -> None:
    """Empty, one wire copied, one wire scaled, several, a repeated column, a zero coefficient."""
    check(
        [[], [(0, 0)], [(1, 2)], [(0, 0), (1, 0)], [(2, 3), (2, 3)], [(2, 4)], [(3, 2), (0, 5)], []],
        [1, FR.p - 1, 5, 0],
    )


def test_no_rows_and_only_empty_rows() -> None:
    check([], [1])
    check([[], [], []], [1, 2])


@pytest.mark.parametrize("threads", [1, 2])
def test_random_rows(rng: random.Random, threads: int) -> None:
    witness = [rng.choice([0, 1, FR.p - 1, rng.randrange(FR.p)]) for _ in range(200)]
    lengths = [rng.choice([0, 1, 1, 2, 9, 15, 16, 17, 33, 66]) for _ in range(2500)]
    rows = [[(rng.randrange(200), rng.randrange(len(COEFFICIENTS))) for _ in range(n)] for n in lengths]
    check(rows, witness, threads)


def test_a_very_long_row_of_the_largest_values() -> None:
    check([[(i % 50, 2) for i in range(MAX_TERMS)]], [FR.p - 1] * 50)


def test_inconsistent_matrices_are_refused() -> None:
    indptr, col, coef = csr([[(0, 0)], [(1, 1)]])
    coefs = FR.bytes_of(COEFFICIENTS)
    for bad, field in [
        ((indptr[:-1], col, coef, coefs), "indptr"),
        ((indptr[::-1].copy(), col, coef, coefs), "indptr"),
        ((indptr, col, coef + 6, coefs), "coef_index"),
        ((indptr, col, coef[:1], coefs), "coef_index"),
        ((np.array([0, MAX_TERMS + 1]), np.zeros(MAX_TERMS + 1, int), np.zeros(MAX_TERMS + 1, int), coefs), "indptr"),
    ]:
        with pytest.raises(InvalidMatrix) as error:
            SparseMatrix(*bad)
        assert error.value.field == field
    with pytest.raises(NonCanonical, match=r"coefs\[0\]"):
        SparseMatrix(indptr, col, coef, np.full((6, 32), 255, np.uint8))
    with pytest.raises(InvalidMatrix, match="2 columns"):
        SparseMatrix(indptr, col, coef, coefs).product(FR.encode(FR.bytes_of([1])))
