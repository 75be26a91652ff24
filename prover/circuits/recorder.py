"""Recorded rows as arrays: a buffer that rows and blocks are appended to, and the blocks that templates are kept in.

Columns are the variables of `constraint_system`: aux j is j, input i is -1 - i. Coefficients are numbered by a table of
distinct values that a recording shares.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prover.filecoin.poseidon import MODULUS

Int32 = NDArray[np.int32]
UInt16 = NDArray[np.uint16]
#: coefficient numbers are 16 bits wide
MAX_COEFFICIENTS = 1 << 16


class CoefficientTable:
    """Distinct coefficients, canonical integers, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: int) -> int:
        """The number of a canonical `value`, a new one if need be."""
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            if found == MAX_COEFFICIENTS:
                raise OverflowError(f"more than {MAX_COEFFICIENTS} distinct coefficients")
            self.values.append(value)
        return found


@dataclass(frozen=True, slots=True)
class Terms:
    """One matrix's terms, row after row: the number of terms of each row, then column and coefficient of each term."""

    counts: Int32
    columns: Int32
    coefficients: UInt16


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a template. Its inputs are ONE, then its parameters, then `num_inputs` new ones."""

    terms: tuple[Terms, Terms, Terms]
    #: of each matrix, where a column is an input, and which
    input_places: tuple[NDArray[np.intp], ...]
    input_numbers: tuple[NDArray[np.intp], ...]
    num_inputs: int
    #: for each aux 1 when it is a bit, else 0
    bits: bytes
    outputs: tuple[int, ...]


@dataclass
class Recording:
    """What a constraint system shares with its templates."""

    coefficients: CoefficientTable = field(default_factory=CoefficientTable)
    blocks: dict[Hashable, Block] = field(default_factory=dict)


class RowBuffer:
    """Rows of A, B and C in order, appended one by one or as blocks."""

    def __init__(self, coefficients: CoefficientTable) -> None:
        self.num_rows = 0
        self._number = coefficients.number
        self._matrices = (_Matrix(), _Matrix(), _Matrix())

    def append(self, *row: Mapping[int, int]) -> None:
        """One row: its combinations of A, B and C."""
        for matrix, combination in zip(self._matrices, row, strict=True):
            before = len(matrix.columns)
            for variable, value in combination.items():
                reduced = value % MODULUS
                if reduced:
                    matrix.columns.append(variable)
                    matrix.coefficients.append(self._number(reduced))
            matrix.counts.append(len(matrix.columns) - before)
        self.num_rows += 1

    def extend(self, block: Block, inputs: Sequence[int], aux_base: int) -> None:
        """The rows of `block`, whose input i is the variable inputs[i] and whose aux j is aux_base + j."""
        variables = np.asarray(inputs, np.int32)
        for matrix, terms, places, numbers in zip(
            self._matrices, block.terms, block.input_places, block.input_numbers, strict=True
        ):
            columns = terms.columns + np.int32(aux_base)
            columns[places] = variables[numbers]
            matrix.flush()
            matrix.parts.append(Terms(terms.counts, columns, terms.coefficients))
        self.num_rows += len(block.terms[0].counts)

    def terms(self) -> tuple[Terms, Terms, Terms]:
        """All rows so far."""
        a, b, c = (matrix.merged() for matrix in self._matrices)
        return a, b, c

    def block(self, parameters: int, num_inputs: int, bits: bytes, outputs: tuple[int, ...]) -> Block:
        """The rows as a template; `num_inputs` counts ONE and the parameters too."""
        terms = self.terms()
        places = tuple(np.flatnonzero(matrix.columns < 0) for matrix in terms)
        numbers = tuple(-1 - matrix.columns[at].astype(np.intp) for matrix, at in zip(terms, places, strict=True))
        return Block(terms, places, numbers, num_inputs - 1 - parameters, bits, outputs)


class _Matrix:
    """The finished parts of a matrix and the rows that were appended since."""

    def __init__(self) -> None:
        self.parts: list[Terms] = []
        self.clear()

    def clear(self) -> None:
        self.counts, self.columns, self.coefficients = array("i"), array("i"), array("H")

    def flush(self) -> None:
        if self.counts:
            self.parts.append(
                Terms(
                    np.array(self.counts, np.int32),
                    np.array(self.columns, np.int32),
                    np.array(self.coefficients, np.uint16),
                )
            )
            self.clear()

    def merged(self) -> Terms:
        self.flush()
        if not self.parts:
            self.parts = [Terms(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint16))]
        if len(self.parts) > 1:
            self.parts = [
                Terms(
                    np.concatenate([part.counts for part in self.parts]),
                    np.concatenate([part.columns for part in self.parts]),
                    np.concatenate([part.coefficients for part in self.parts]),
                )
            ]
        return self.parts[0]
