"""Fr and Fp are plain integers mod p; Fp2 is a pair (c0, c1) of them. The slow, obvious arithmetic the fast one is
judged by."""

from __future__ import annotations

from typing import Final

P: Final = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
R: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001

Fp2 = tuple[int, int]


def fp2_add(x: Fp2, y: Fp2) -> Fp2:
    return (x[0] + y[0]) % P, (x[1] + y[1]) % P


def fp2_sub(x: Fp2, y: Fp2) -> Fp2:
    return (x[0] - y[0]) % P, (x[1] - y[1]) % P


def fp2_mul(x: Fp2, y: Fp2) -> Fp2:
    return (x[0] * y[0] - x[1] * y[1]) % P, (x[0] * y[1] + x[1] * y[0]) % P


def fp2_inverse(x: Fp2) -> Fp2:
    norm = pow(x[0] * x[0] + x[1] * x[1], -1, P)
    return x[0] * norm % P, -x[1] * norm % P
