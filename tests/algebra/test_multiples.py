"""Multiples of a generator, as the setup makes them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prover.algebra import multiples
from prover.algebra.fields import FR, NonCanonical
from prover.reference import curve as reference
from tests.algebra.conftest import EDGE_SCALARS, Curve


@pytest.mark.parametrize("count", [0, 1, 40])
def test_each_is_the_scalar_times_the_generator(curve: Curve, rng: random.Random, count: int) -> None:
    scalars = [*EDGE_SCALARS, *(rng.randrange(FR.p) for _ in range(count))][:count]
    found = multiples.of_generator(curve.group, FR.bytes_of(scalars), threads=2)
    assert found.shape == (count, curve.group.size)
    assert curve.points_of(found) == [reference.multiply(curve.generator, s) for s in scalars]


def test_many_agree_with_a_sum(curve: Curve, rng: random.Random) -> None:
    """sum (s_i G) = (sum s_i) G over more points than one batch of lanes holds."""
    scalars = [rng.randrange(FR.p) for _ in range(700)]
    found = multiples.of_generator(curve.group, FR.bytes_of(scalars), threads=2)
    expected = reference.multiply(curve.generator, sum(scalars) % FR.p)
    assert curve.peer_msm(found, [1] * 700) == reference.to_bytes(expected, curve.group.degree)


def test_a_scalar_that_is_not_canonical_is_refused(curve: Curve) -> None:
    with pytest.raises(NonCanonical, match=r"scalars\[0\]"):
        multiples.of_generator(curve.group, np.full((1, 32), 255, np.uint8))
