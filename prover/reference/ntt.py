"""The transform by its definition, and the quotient of the QAP by polynomial long division."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from prover.reference.fields import R


def evaluate(coefficients: Sequence[int], x: int) -> int:
    """The polynomial at x, by Horner's rule."""
    value = 0
    for c in reversed(coefficients):
        value = (value * x + c) % R
    return value


def fft(coefficients: Sequence[int], root: int, shift: int = 1) -> list[int]:
    """Values at shift * root^i for every i below the length."""
    return [evaluate(coefficients, shift * pow(root, i, R)) for i in range(len(coefficients))]


def ifft(values: Sequence[int], root: int, shift: int = 1) -> list[int]:
    """Coefficients of the polynomial with these values at shift * root^i."""
    scale = pow(len(values), -1, R)
    plain = fft(values, pow(root, -1, R))
    return [c * scale * pow(shift, -i, R) % R for i, c in enumerate(plain)]


def multiply(x: Sequence[int], y: Sequence[int]) -> list[int]:
    """Product of two polynomials."""
    result = [0] * (len(x) + len(y) - 1)
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            result[i + j] = (result[i + j] + a * b) % R
    return result


def quotient(a: Sequence[int], b: Sequence[int], c: Sequence[int], root: int) -> list[int]:
    """h = (A B - C) / (X^m - 1) from values a, b, c of length m; raises ArithmeticError where the division leaves a
    rest."""
    m = len(a)
    product = multiply(ifft(a, root), ifft(b, root))
    rest = [(x - y) % R for x, y in zip_longest(product, ifft(c, root), fillvalue=0)]
    h = rest[m:]
    if any((low + high) % R for low, high in zip_longest(rest[:m], h, fillvalue=0)):
        raise ArithmeticError("A B - C does not vanish on the domain")
    return h
