"""The sum that makes C, against py-arkworks, in its special cases too; and the encoding of a proof."""

from __future__ import annotations

import random

import pytest
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from prover.algebra.constants import R
from prover.groth16 import proof
from prover.groth16.assembly import combine
from prover.groth16.errors import ProofMalformed

INFINITY = bytes([0x40]) + bytes(95)


def point(k: int) -> bytes:
    return INFINITY if k % R == 0 else bytes((G1Point() * Scalar(k % R)).to_xy_bytes_be())


@pytest.mark.parametrize("seed", range(5))
def test_random_sums(seed: int) -> None:
    choose = random.Random(seed)
    k = [choose.randrange(R) for _ in range(4)]
    r, s = choose.randrange(R), choose.randrange(R)
    assert combine([point(k[0]), point(k[1])], [(point(k[2]), r), (point(k[3]), s)]) == point(
        k[0] + k[1] + k[2] * r + k[3] * s
    )


@pytest.mark.parametrize(
    ("plain", "scaled"),
    [
        ([], []),
        ([0], []),
        ([5, 5], []),
        ([5, R - 5], []),
        ([0, 7], [(0, 3), (1, 0)]),
        ([1], [(1, 1), (1, R - 2)]),
        ([3], [(4, 1), (4, 1)]),
        ([], [(9, R - 1), (9, 1)]),
    ],
)
def test_infinity_doubling_and_opposites(plain: list[int], scaled: list[tuple[int, int]]) -> None:
    expected = point(sum(plain) + sum(k * factor for k, factor in scaled))
    assert combine([point(k) for k in plain], [(point(k), factor) for k, factor in scaled]) == expected


@pytest.mark.parametrize("k", [1, 2, 3, 4, R - 1, R - 2, 2**200 + 1])
def test_points_are_compressed_as_the_other_library_does(k: int) -> None:
    g1, g2 = G1Point() * Scalar(k), G2Point() * Scalar(k)
    assert proof.compress(bytes(g1.to_xy_bytes_be())) == bytes(g1.to_compressed_bytes())
    other = bytes(g2.to_xy_bytes_be())  # c0 before c1
    ours = other[48:96] + other[:48] + other[144:] + other[96:144]
    assert proof.compress(ours) == bytes(g2.to_compressed_bytes())


def test_a_proof_with_a_point_at_infinity_is_not_made() -> None:
    with pytest.raises(ProofMalformed, match="infinity"):
        proof.compress(INFINITY)


def test_the_root_of_a_y_whose_c1_is_zero_is_told_by_c0() -> None:
    """No point of G2 is known to have y.c1 = 0, but the format says what its flag would be."""
    small, large = (1).to_bytes(48, "big"), (proof._P - 1).to_bytes(48, "big")
    assert not proof._is_larger_root(bytes(48) + small)
    assert proof._is_larger_root(bytes(48) + large)
    assert proof._is_larger_root(large + small)
