"""G1 and G2 by the schoolbook affine formulas: a point is (x, y) or None for infinity. A coordinate of either group
is a pair in Fp2, with second component 0 on G1, so one set of functions serves both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prover.reference.fields import Fp2, P, R, fp2_add, fp2_inverse, fp2_mul, fp2_sub

Point = tuple[Fp2, Fp2] | None

G1_GENERATOR: Final[Point] = (
    (0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB, 0),
    (0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1, 0),
)
G2_GENERATOR: Final[Point] = (
    (
        0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
        0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
    ),
    (
        0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
        0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
    ),
)


def negate(p: Point) -> Point:
    return p and (p[0], fp2_sub((0, 0), p[1]))


def add(p: Point, q: Point) -> Point:
    """p + q by chord and tangent."""
    if p is None or q is None:
        return q if p is None else p
    (x1, y1), (x2, y2) = p, q
    if x1 == x2:
        if y1 != y2 or y1 == (0, 0):
            return None
        slope = fp2_mul(fp2_mul((3, 0), fp2_mul(x1, x1)), fp2_inverse(fp2_add(y1, y1)))
    else:
        slope = fp2_mul(fp2_sub(y2, y1), fp2_inverse(fp2_sub(x2, x1)))
    x3 = fp2_sub(fp2_sub(fp2_mul(slope, slope), x1), x2)
    return x3, fp2_sub(fp2_mul(slope, fp2_sub(x1, x3)), y1)


def multiply(p: Point, scalar: int) -> Point:
    """scalar * p by double and add; the scalar is taken mod r."""
    result: Point = None
    for bit in bin(scalar % R)[2:]:
        result = add(result, result)
        if bit == "1":
            result = add(result, p)
    return result


def total(points: Iterable[Point]) -> Point:
    result: Point = None
    for p in points:
        result = add(result, p)
    return result


def msm(points: Sequence[Point], scalars: Sequence[int]) -> Point:
    """The sum of scalar * point, term by term."""
    return total(multiply(p, s) for p, s in zip(points, scalars, strict=True))


def to_bytes(p: Point, degree: int) -> bytes:
    """bellman's uncompressed form: big-endian x | y, c1 before c0 in G2; infinity is 0x40 and zeros."""
    if p is None:
        return b"\x40" + bytes(96 * degree - 1)
    return b"".join(c.to_bytes(48, "big") for coordinate in p for c in reversed(coordinate[:degree]))


def from_bytes(data: bytes) -> Point:
    """The point of bellman's uncompressed form; the flags are not otherwise checked, the curve equation is not."""
    if data[0] & 0x40:
        return None
    numbers = [int.from_bytes(data[i : i + 48], "big") for i in range(0, len(data), 48)]
    if len(numbers) == 2:
        return (numbers[0], 0), (numbers[1], 0)
    return (numbers[1], numbers[0]), (numbers[3], numbers[2])


def on_curve(p: Point, degree: int) -> bool:
    """Whether y^2 = x^3 + 4 (G1) or x^3 + 4 (1 + u) (G2)."""
    if p is None:
        return True
    x, y = p
    b = (4, 0) if degree == 1 else (4, 4)
    return fp2_sub(fp2_mul(y, y), fp2_add(fp2_mul(x, fp2_mul(x, x)), b)) == (0, 0) and all(c < P for c in (*x, *y))
