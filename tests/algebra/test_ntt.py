"""Transforms over Fr: against their definition, against each other, and the quotient against long division."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prover.algebra import chunks, constants
from prover.algebra.domains import MAX_LOG2, DomainTooLarge
from prover.algebra.fields import FR
from prover.algebra.kernels import Residues
from prover.algebra.ntt import Domain, WrongLength
from prover.reference import ntt as reference


def residues(values: list[int]) -> Residues:
    return FR.encode(FR.bytes_of(values))


def integers(found: Residues) -> list[int]:
    return FR.ints_of(FR.decode(found))


@pytest.mark.parametrize("log2", [0, 1, 2, 3, 4, 5, 7])
def test_transforms_are_what_they_are_defined_to_be(log2: int, rng: random.Random) -> None:
    domain, root = Domain(log2), constants.root_of_unity(log2)
    x = [rng.randrange(FR.p) for _ in range(1 << log2)]
    assert integers(domain.fft(residues(x))) == reference.fft(x, root)
    assert integers(domain.ifft(residues(x))) == reference.ifft(x, root)
    assert integers(domain.coset_fft(residues(x))) == reference.fft(x, root, constants.GENERATOR)
    assert integers(domain.coset_ifft(residues(x))) == reference.ifft(x, root, constants.GENERATOR)


@pytest.mark.parametrize("log2", [10, 13])
def test_large_transforms_at_sampled_points(log2: int, rng: random.Random) -> None:
    domain, root = Domain(log2), constants.root_of_unity(log2)
    x = [rng.choice([0, 1, FR.p - 1, rng.randrange(FR.p)]) for _ in range(1 << log2)]
    values = domain.fft(residues(x))
    for i in (0, 1, (1 << log2) // 2 + 3, (1 << log2) - 1):
        assert integers(values[:, i : i + 1]) == [reference.evaluate(x, pow(root, i, FR.p))]
    assert integers(domain.ifft(values)) == x
    assert integers(domain.coset_ifft(domain.coset_fft(residues(x)))) == x


@pytest.mark.parametrize("log2", [0, 1, 5, 10])
def test_one_program_for_a_whole_transform_gives_the_same(
    log2: int, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of devices with a memory of their own, on a CPU."""
    x = residues([rng.randrange(FR.p) for _ in range(1 << log2)])
    domain = Domain(log2)
    expected = [integers(way(x)) for way in (domain.fft, domain.ifft, domain.coset_fft, domain.coset_ifft)]
    monkeypatch.setattr(chunks, "limit", lambda: chunks.Limit(1 << 30))
    assert [integers(way(x)) for way in (domain.fft, domain.ifft, domain.coset_fft, domain.coset_ifft)] == expected


def test_extreme_values_stay_exact() -> None:
    """The largest residues everywhere: a transform of all r - 1 is -m, 0, 0, ..."""
    domain = Domain(9)
    assert integers(domain.fft(residues([FR.p - 1] * 512))) == [FR.p - 512] + [0] * 511


@pytest.mark.parametrize("log2", [1, 8, 11])
def test_outputs_are_reduced_whatever_the_sums_inside(log2: int) -> None:
    """All r - 1, so that the first value is the largest sum of unreduced elements."""
    domain, limit = Domain(log2), (FR.k // 2 + 1) * FR.p
    x = residues([FR.p - 1] * (1 << log2))
    for values in (domain.fft(x), domain.ifft(x), domain.coset_fft(x), domain.coset_ifft(x)):
        assert max(abs(FR.value(column)) for column in values.T[:8]) <= limit
        assert np.abs(values).max() <= 1 << 24


@pytest.mark.parametrize("log2", [0, 1, 4, 6])
@pytest.mark.parametrize("threads", [1, 2])
def test_quotient_is_that_of_long_division(log2: int, threads: int, rng: random.Random) -> None:
    m = 1 << log2
    a, b = ([rng.randrange(FR.p) for _ in range(m)] for _ in range(2))
    c = [x * y % FR.p for x, y in zip(a, b, strict=True)]
    h = Domain(log2).quotient(residues(a), residues(b), residues(c), threads=threads)
    assert h.shape == (m - 1, 32) and h.dtype == np.uint8
    assert FR.ints_of(h) == reference.quotient(a, b, c, constants.root_of_unity(log2))[: m - 1]


def test_rows_that_do_not_fill_the_domain_are_padded(rng: random.Random) -> None:
    a, b = ([rng.randrange(FR.p) for _ in range(11)] for _ in range(2))
    c = [x * y % FR.p for x, y in zip(a, b, strict=True)]
    padded = [v + [0] * 5 for v in (a, b, c)]
    domain = Domain(4)
    short = domain.quotient(*(residues(v) for v in (a, b, c)))
    assert (short == domain.quotient(*(residues(v) for v in padded))).all()


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(DomainTooLarge, match="at most"):
        Domain(MAX_LOG2 + 1)
    with pytest.raises(WrongLength, match="domain of 4"):
        Domain(2).fft(residues([1] * 5))
