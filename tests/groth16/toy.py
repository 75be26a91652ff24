"""Small circuits for tests: the textbook's form and the recorded form of the same rows."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from prover.algebra.constants import R
from prover.algebra.fields import FR
from prover.algebra.kernels import Residues
from prover.circuits.matrices import Matrices, SparseRows
from prover.groth16.qap import Bytes, to_bytes
from prover.reference.groth16 import Circuit, Row


def product() -> tuple[Circuit, list[int]]:
    """a * b = c with c public: a circuit whose parameters have 2,136 bytes."""
    return Circuit(2, 4, [{2: 1}], [{3: 1}], [{1: 1}]), [1, 21, 3, 7]


def chain(rows: int, seed: int) -> tuple[Circuit, list[int]]:
    """Each row defines the next wire as a product of two combinations of earlier ones; some wires stay out of B."""
    choose = random.Random(seed)
    wires = [1, choose.randrange(R), choose.randrange(R)]
    a: list[Row] = []
    b: list[Row] = []
    for i in range(rows):
        a.append({choose.randrange(len(wires)): choose.choice([1, R - 1, choose.randrange(1, R)]) for _ in range(3)})
        b.append({0: 1} if i % 3 == 0 else {choose.randrange(len(wires)): choose.randrange(1, R) for _ in range(2)})
        wires.append(value(a[-1], wires) * value(b[-1], wires) % R)
    c = [{3 + i: 1} for i in range(rows)]
    return Circuit(3, len(wires), a, b, c), wires


def value(row: Row, wires: list[int]) -> int:
    return sum(wires[wire] * factor for wire, factor in row.items()) % R


def matrices(circuit: Circuit) -> Matrices:
    """The recorded form of a textbook circuit."""
    table: dict[int, int] = {}
    sparse = [_sparse(rows, table) for rows in (circuit.a, circuit.b, circuit.c)]
    coefs = b"".join(coefficient.to_bytes(32, "little") for coefficient in table)
    return Matrices(
        circuit.num_inputs,
        circuit.num_wires - circuit.num_inputs,
        *sparse,
        np.frombuffer(coefs, dtype=np.uint8).reshape(-1, 32),
    )


def _sparse(rows: object, table: dict[int, int]) -> SparseRows:
    terms = [sorted(row.items()) for row in rows]  # type: ignore[attr-defined]
    return SparseRows(
        indptr=np.cumsum([0, *(len(row) for row in terms)], dtype=np.int32),
        col=np.array([wire for row in terms for wire, _ in row], dtype=np.int32),
        coef=np.array([table.setdefault(c, len(table)) for row in terms for _, c in row], dtype=np.uint16),
    )


@dataclass(frozen=True)
class Wired:
    """An assignment as a circuit's synthesis gives it."""

    inputs: Bytes
    aux: Bytes
    a: Residues
    b: Residues
    c: Residues


def wired(circuit: Circuit, wires: list[int]) -> Wired:
    """The assignment of a textbook circuit's wires; a, b, c by plain integers."""
    full = circuit.with_input_rows()
    rows = (FR.encode(to_bytes([value(row, wires) for row in matrix])) for matrix in (full.a, full.b, full.c))
    n = circuit.num_inputs
    return Wired(to_bytes(wires[:n]), to_bytes(wires[n:]), *rows)
