"""Textbook Groth16 on plain integers, for circuits of a few rows: the oracle of `prover.groth16`.

Everything is done in the exponent: a point is the integer that the group's generator is multiplied by. Polynomials are
coefficient lists, interpolated and divided as taught at school; nothing is shared with the fast code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

R = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
Polynomial = list[int]
Row = dict[int, int]  # wire -> coefficient


@dataclass(frozen=True)
class Circuit:
    """Rows A * B = C over wires: the inputs (ONE is wire 0), then the aux."""

    num_inputs: int
    num_wires: int
    a: Sequence[Row]
    b: Sequence[Row]
    c: Sequence[Row]

    def with_input_rows(self) -> Circuit:
        """The rows x * 0 = 0 of the inputs appended, as the Filecoin stack's generator and prover do."""
        extra: list[Row] = [{i: 1} for i in range(self.num_inputs)]
        none: list[Row] = [{} for _ in extra]
        return Circuit(self.num_inputs, self.num_wires, [*self.a, *extra], [*self.b, *none], [*self.c, *none])


@dataclass(frozen=True)
class Secrets:
    """The scalars of a set-up."""

    alpha: int
    beta: int
    gamma: int
    delta: int
    tau: int


@dataclass(frozen=True)
class Proof:
    """The exponents of A, B and C."""

    a: int
    b: int
    c: int


def prove(circuit: Circuit, secret: Secrets, wires: Sequence[int], r: int, s: int) -> Proof:
    """The proof by the formulas of the paper; ValueError when the wires do not satisfy the rows."""
    full = circuit.with_input_rows()
    points = domain(len(full.a))
    u, v, w = (_columns(rows, full.num_wires, points) for rows in (full.a, full.b, full.c))
    sums = [_weighted(columns, wires) for columns in (u, v, w)]
    target = [-1, *[0] * (len(points) - 1), 1]
    h, rest = divide(subtract(multiply(sums[0], sums[1]), sums[2]), target)
    if any(rest):
        raise ValueError("the wires do not satisfy the rows")
    a = secret.alpha + at(sums[0], secret.tau) + r * secret.delta
    b = secret.beta + at(sums[1], secret.tau) + s * secret.delta
    private = sum(
        wires[j] * (secret.beta * at(u[j], secret.tau) + secret.alpha * at(v[j], secret.tau) + at(w[j], secret.tau))
        for j in range(full.num_inputs, full.num_wires)
    )
    quotient = (private + at(h, secret.tau) * at(target, secret.tau)) * pow(secret.delta, -1, R)
    return Proof(a % R, b % R, (quotient + s * a + r * b - r * s * secret.delta) % R)


def verify(circuit: Circuit, secret: Secrets, inputs: Sequence[int], proof: Proof) -> bool:
    """The pairing equation in the exponent; `inputs` with ONE."""
    full = circuit.with_input_rows()
    points = domain(len(full.a))
    u, v, w = (_columns(rows, full.num_wires, points) for rows in (full.a, full.b, full.c))
    public = sum(
        x * (secret.beta * at(u[j], secret.tau) + secret.alpha * at(v[j], secret.tau) + at(w[j], secret.tau))
        for j, x in enumerate(inputs)
    )
    return (proof.a * proof.b - secret.alpha * secret.beta - public - proof.c * secret.delta) % R == 0


def domain(rows: int) -> list[int]:
    """The powers of the root of unity of the next power of two."""
    size = 1
    while size < rows:
        size *= 2
    return [pow(7, (R - 1) // size * i, R) for i in range(size)]


def _columns(rows: Sequence[Row], wires: int, points: list[int]) -> list[Polynomial]:
    """The polynomial of each wire, which has the value rows[i][wire] at points[i]."""
    padded = [*rows, *[{}] * (len(points) - len(rows))]
    return [interpolate(points, [row.get(j, 0) for row in padded]) for j in range(wires)]


def _weighted(columns: Sequence[Polynomial], wires: Sequence[int]) -> Polynomial:
    total: Polynomial = [0] * max(len(column) for column in columns)
    for column, wire in zip(columns, wires, strict=True):
        total = [(x + wire * y) % R for x, y in zip(total, column, strict=True)]
    return total


def interpolate(points: Sequence[int], values: Sequence[int]) -> Polynomial:
    """Lagrange: the polynomial of degree below len(points) with these values."""
    total: Polynomial = [0] * len(points)
    for i, (point, value) in enumerate(zip(points, values, strict=True)):
        if not value:
            continue
        basis, scale = [1], value
        for j, other in enumerate(points):
            if j != i:
                basis = multiply(basis, [-other, 1])
                scale = scale * pow(point - other, -1, R) % R
        total = [(x + scale * y) % R for x, y in zip(total, basis, strict=True)]
    return total


def at(polynomial: Polynomial, x: int) -> int:
    """The value at x (Horner)."""
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % R
    return value


def multiply(f: Polynomial, g: Polynomial) -> Polynomial:
    product = [0] * (len(f) + len(g) - 1)
    for i, x in enumerate(f):
        for j, y in enumerate(g):
            product[i + j] = (product[i + j] + x * y) % R
    return product


def subtract(f: Polynomial, g: Polynomial) -> Polynomial:
    size = max(len(f), len(g))
    f, g = [*f, *[0] * (size - len(f))], [*g, *[0] * (size - len(g))]
    return [(x - y) % R for x, y in zip(f, g, strict=True)]


def divide(f: Polynomial, g: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder by a monic g."""
    rest = [*f]
    quotient = [0] * max(1, len(f) - len(g) + 1)
    for i in reversed(range(len(f) - len(g) + 1)):
        factor = quotient[i] = rest[i + len(g) - 1]
        for j, y in enumerate(g):
            rest[i + j] = (rest[i + j] - factor * y) % R
    return quotient, rest[: len(g) - 1]
