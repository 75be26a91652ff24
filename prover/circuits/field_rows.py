"""The products a = A z, b = B z, c = C z on residues, for rows of field elements.

Rows are sorted by what they cost. Most are one variable with coefficient 1: copied. Next come sums and differences of
two variables and a constant: added. Nearly all other terms are in linear rows L * 1 = v, Poseidon's mixes: where these
hold, L z is v, which is copied. That they hold is checked for all at once, by a random combination of them, drawn in
secret when the circuit is loaded, whose product with z must be 0 (a broken row is missed with a probability of 2^-254).
When they do not, and for any other rows, the sums of products are made.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prover.algebra.fields import FR
from prover.algebra.kernels import Residues, in_threads
from prover.algebra.sparse import SparseMatrix
from prover.circuits.matrices import Mask, Matrices, SparseRows
from prover.circuits.residues import Integers, balanced_floats, balanced_integers, is_zero_sum, reduced

#: rows that are added together: their sums stay in a core's cache
_SUM_CHUNK: Final = 1024
#: products that are added without reduction: below 2^12 * 2^48
_DOT_CHUNK: Final = 4096
#: rows of one random combination: a column has one term a row, and at most one more, of which SparseMatrix sums 2^15
_COMBINED_ROWS: Final = 1 << 14


class FieldRows:
    """Matrices prepared for products over Fr. Immutable, safe to share between threads."""

    def __init__(self, matrices: Matrices) -> None:
        coefs = FR.encode(matrices.coefs)
        own, none = np.arange(matrices.num_inputs), np.full(matrices.num_inputs, -1)
        sides = ((matrices.a, own), (matrices.b, none), (matrices.c, none))
        self._cheap = tuple(_CheapRows(rows, matrices.coefs, coefs, inputs) for rows, inputs in sides)
        self._linear = _LinearRows(matrices, self._cheap[0].rest)
        products = (self._cheap[0].rest & ~self._linear.rows, self._cheap[1].rest, self._cheap[2].rest)
        self._products = tuple(
            _Products(rows, matrices.coefs, mask) for (rows, _), mask in zip(sides, products, strict=True)
        )
        self._linear_products = _Products(matrices.a, matrices.coefs, self._linear.rows)

    def evaluate(self, z: NDArray[np.uint8], threads: int = 1) -> tuple[Residues, Residues, Residues]:
        """a, b and c as residues float32[22, num_rows] of z = uint8[num_columns, 32], canonical (inputs, then aux)."""
        columns = FR.encode(z, threads)
        a, b, c = (rows.apply(columns, threads) for rows in self._cheap)
        if not self._linear.apply(columns, a):
            self._linear_products.apply(columns, a, threads)
        for products, out in zip(self._products, (a, b, c), strict=True):
            products.apply(columns, out, threads)
        return a, b, c


class _CheapRows:
    """The rows of one matrix that are copies or short sums. `rest`: the others, bool[num_constraints]."""

    def __init__(self, rows: SparseRows, values: NDArray[np.uint8], coefs: Residues, inputs: Integers) -> None:
        """`coefs` float32[22, k]: the values as residues. `inputs`: what the rows of the inputs copy, -1 for none."""
        copied, source = _single(rows, values)
        source = np.concatenate([source, inputs])
        self._source, self._empty = np.maximum(source, 0), np.flatnonzero(source < 0)
        self._short = _ShortRows(rows, values, coefs, ~copied)
        self.rest = ~copied & ~self._short.rows

    def apply(self, z: Residues, threads: int) -> Residues:
        """The product with z, float32[22, num_rows]; 0 in the rest."""
        out = np.take(z, self._source, axis=1)
        out[:, self._empty] = 0
        self._short.apply(z, out, threads)
        return out


class _ShortRows:
    """Rows of at most two variables with coefficients 1 and -1, and a multiple of ONE: no product is needed."""

    def __init__(self, rows: SparseRows, values: NDArray[np.uint8], coefs: Residues, candidates: Mask) -> None:
        count = len(candidates)
        row = np.repeat(np.arange(count), np.diff(rows.indptr))
        constant = rows.col == 0
        sign = (rows.coef == _number_of(values, 1)).astype(np.int8) - (rows.coef == _number_of(values, -1))
        few = np.bincount(row[~constant], minlength=count) <= 2
        self.rows = candidates & few & (np.bincount(row[~constant & (sign == 0)], minlength=count) == 0)
        self._place = np.flatnonzero(self.rows)
        place = np.cumsum(self.rows) - 1
        terms = np.flatnonzero(self.rows[row] & ~constant)
        at = _nth_of_row(row[terms]), place[row[terms]]
        self._column = np.zeros((2, len(self._place)), np.int64)
        self._sign = np.zeros((2, len(self._place)), np.float32)
        self._column[at], self._sign[at] = rows.col[terms], sign[terms]
        terms = np.flatnonzero(self.rows[row] & constant)
        self._constant = np.zeros((len(coefs), len(self._place)), np.float32)
        self._constant[:, place[row[terms]]] = coefs[:, rows.coef[terms]]

    def apply(self, z: Residues, out: Residues, threads: int) -> None:
        def work(start: int) -> None:
            rows = slice(start, start + _SUM_CHUNK)
            sums = self._constant[:, rows].astype(np.float64)
            for column, sign in zip(self._column, self._sign, strict=True):
                sums += np.take(z, column[rows], axis=1) * sign[rows]
            out[:, self._place[rows]] = balanced_floats(sums)

        in_threads(work, range(0, len(self._place), _SUM_CHUNK), threads)


class _LinearRows:
    """Rows L * 1 = v with many terms in L: which ones, and their random combination."""

    def __init__(self, matrices: Matrices, candidates: Mask) -> None:
        unit, factor = _single(matrices.b, matrices.coefs)
        named, claimed = _single(matrices.c, matrices.coefs)
        self.rows = candidates & unit & (factor == 0) & named
        self._place = np.flatnonzero(self.rows)
        self._claimed = claimed[self._place]
        starts = range(0, len(self._place), _COMBINED_ROWS)
        parts = [slice(start, start + _COMBINED_ROWS) for start in starts]
        combined = [_random_combination(matrices, self._place[part], self._claimed[part]) for part in parts]
        self._columns = np.concatenate([columns for columns, _ in combined] or [np.zeros(0, np.int64)])
        self._weights = np.concatenate([weights for _, weights in combined] or [np.zeros((0, 22), np.int64)])

    def apply(self, z: Residues, a: Residues) -> bool:
        """Fills these rows of a and returns True, or returns False because they do not hold."""
        if self._hold(z):
            a[:, self._place] = np.take(z, self._claimed, axis=1)
            return True
        return False

    def _hold(self, z: Residues) -> bool:
        starts = range(0, len(self._columns), _DOT_CHUNK)
        sums = np.empty((len(starts), len(z)), np.float32)
        for i, start in enumerate(starts):
            part = slice(start, start + _DOT_CHUNK)
            factors = z[:, self._columns[part]].T.astype(np.int64)
            sums[i] = balanced_integers(np.einsum("ij,ij->j", factors, self._weights[part]))
        return is_zero_sum(reduced(sums))


class _Products:
    """Those rows of a matrix that `mask` names, as sums of products."""

    def __init__(self, rows: SparseRows, values: NDArray[np.uint8], mask: Mask) -> None:
        counts = np.diff(rows.indptr)
        terms = np.repeat(mask, counts)
        indptr = np.concatenate([[0], np.cumsum(counts[mask])])
        self._place = np.flatnonzero(mask)
        self._matrix = SparseMatrix(indptr, rows.col[terms], rows.coef[terms], values)

    def apply(self, z: Residues, out: Residues, threads: int) -> None:
        if len(self._place):
            out[:, self._place] = self._matrix.product(z, threads)


def _single(rows: SparseRows, values: NDArray[np.uint8]) -> tuple[Mask, Integers]:
    """Which rows are one column with coefficient 1, and which column, -1 for the other rows."""
    counts, first = np.diff(rows.indptr), rows.indptr[:-1]
    single = counts == 1
    single[single] = rows.coef[first[single]] == _number_of(values, 1)
    column = np.full(len(counts), -1)
    column[single] = rows.col[first[single]]
    return single, column


def _nth_of_row(row: Integers) -> Integers:
    """For each term, given by its ascending row, its position among the terms of that row; at most two have one row."""
    return np.concatenate([[0], row[1:] == row[:-1]])[: len(row)].astype(np.int64)


def _number_of(values: NDArray[np.uint8], wanted: int) -> int:
    """The number of a coefficient in a table of canonical little-endian values; -1 when it does not occur."""
    found = np.flatnonzero((values == FR.bytes_of([wanted])).all(axis=1))
    return int(found[0]) if len(found) else -1


def _random_combination(matrices: Matrices, places: NDArray[np.intp], claimed: Integers) -> tuple[Integers, Integers]:
    """The sum of rho_i (L_i - v_i) over the rows at `places`: columns, and their weights as residues int64[n, 22]."""
    rows, count = matrices.a.take(places), len(places)
    columns = np.concatenate([rows.col, claimed])
    row = np.concatenate([np.repeat(np.arange(count), np.diff(rows.indptr)), np.arange(count)])
    coef = np.concatenate([rows.coef.astype(np.int64), np.full(count, len(matrices.coefs))])
    values = np.concatenate([matrices.coefs, FR.bytes_of([FR.p - 1])])
    order = np.argsort(columns, kind="stable")
    ends = np.flatnonzero(np.diff(columns[order], append=-1)) + 1
    combined = SparseMatrix(np.concatenate([[0], ends]), row[order], coef[order], values)
    weights = combined.product(FR.encode(_random_elements(count)))
    return columns[order][ends - 1].astype(np.int64), np.ascontiguousarray(weights.T).astype(np.int64)


def _random_elements(count: int) -> NDArray[np.uint8]:
    """Secret numbers of 254 bits."""
    elements = np.frombuffer(secrets.token_bytes(32 * count), np.uint8).reshape(count, 32).copy()
    elements[:, 31] &= 0x3F
    return elements
