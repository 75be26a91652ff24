"""Multi-scalar multiplication: edge cases against the sum term by term, random cases and awkward scalars against
py-arkworks."""

from __future__ import annotations

import random

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.algebra import digits, kernels
from prover.algebra import msm as msm_module
from prover.algebra.bases import Windows
from prover.algebra.buckets import LONGEST, cut
from prover.algebra.fields import FR, NonCanonical
from prover.algebra.msm import FixedBases, ScalarCountMismatch, msm
from prover.reference import curve as reference
from tests.algebra.conftest import EDGE_SCALARS, Curve


def scalar_mix(rng: random.Random, count: int) -> list[int]:
    """Classes on which fast paths branch: zero, one, bits, small, negative, full."""
    makers = [
        lambda: 0,
        lambda: 1,
        lambda: rng.randrange(2),
        lambda: rng.randrange(1 << 16),
        lambda: FR.p - rng.randrange(1, 1 << 8),
        lambda: rng.randrange(FR.p),
    ]
    return [rng.choice(makers)() for _ in range(count)]


@pytest.mark.parametrize("tables", [1, 3, 64])
def test_no_base_and_one_base(curve: Curve, tables: int) -> None:
    empty = FixedBases(np.zeros((0, curve.group.size), np.uint8), curve.group, tables=tables)
    assert empty.msm(np.zeros((0, 32), np.uint8)).tobytes() == reference.to_bytes(None, curve.group.degree)
    one = FixedBases(curve.bytes_of([curve.generator]), curve.group, tables=tables, window_bits=8)
    for s in EDGE_SCALARS:
        expected = reference.to_bytes(reference.multiply(curve.generator, s), curve.group.degree)
        assert one.msm(FR.bytes_of([s])).tobytes() == expected


def test_infinity_repeated_and_opposite_bases(curve: Curve, rng: random.Random) -> None:
    """Equal bases with equal scalars meet in one bucket: doubling inside an addition, cancellation, and infinity as a
    base."""
    p, q = curve.random_points(rng, 2)
    bases = [p, p, reference.negate(p), None, q, q, reference.negate(q), None, p]
    for scalars in ([5] * 9, [5, 5, 5, 0, 1, FR.p - 1, 3, 7, 0], [1, 1, 2, 9, 4, 4, 8, FR.p - 1, 0]):
        got = msm(curve.bytes_of(bases), FR.bytes_of(scalars), curve.group)
        assert got.tobytes() == reference.to_bytes(reference.msm(bases, scalars), curve.group.degree)


@pytest.mark.parametrize(("tables", "window_bits"), [(1, None), (1, 4), (2, 7), (5, 12), (17, 15), (64, 5)])
def test_every_number_of_tables_and_window_gives_the_same_sum(
    curve: Curve, rng: random.Random, tables: int, window_bits: int | None
) -> None:
    data = curve.progression(67)
    scalars = [*EDGE_SCALARS, *scalar_mix(rng, 67 - len(EDGE_SCALARS))]
    bases = FixedBases(data, curve.group, tables=tables, window_bits=window_bits, threads=2)
    expected = curve.peer_msm(data, scalars)
    assert bases.msm(FR.bytes_of(scalars), threads=1).tobytes() == expected
    assert bases.msm(FR.bytes_of(scalars), threads=2).tobytes() == expected


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("entries", [1, 1 << 23])
def test_bits_apart_images_and_groups_of_windows_give_the_same_sum(
    images: bool, entries: int, curve: Curve, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A witness of bits with a few other wires, infinity among the bases, and as many groups of windows as there can
    be."""
    monkeypatch.setattr(msm_module, "_ENTRIES", entries)
    points: list[reference.Point] = [*curve.points_of(curve.progression(600)), None, None, None]
    scalars = [rng.randrange(2) for _ in points]
    scalars[::50] = [rng.randrange(FR.p) for _ in scalars[::50]]
    scalars[-3:] = [1, 0, FR.p - 2]
    bases = FixedBases(curve.bytes_of(points), curve.group, images=images)
    expected = curve.peer_msm(curve.bytes_of(points[:-3]), scalars[:-3])
    assert bases.msm(FR.bytes_of(scalars), threads=2).tobytes() == expected
    assert bases.msm(FR.bytes_of([0] * 603)).tobytes() == reference.to_bytes(None, curve.group.degree)


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_random_sums(curve: Curve, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 400))
    scalars = scalar_mix(random.Random(data.draw(st.integers(0, 1 << 32))), count)
    points = curve.progression(count)
    assert msm(points, FR.bytes_of(scalars), curve.group).tobytes() == curve.peer_msm(points, scalars)


@pytest.mark.parametrize("scalar", [1, FR.p - 1, 0x1234567890ABCDEF << 180])
def test_all_scalars_equal(curve: Curve, scalar: int) -> None:
    """One bucket holds every base: it is cut into runs and folded in pairs."""
    count = 3 * LONGEST + 5
    data = curve.progression(count)
    assert msm(data, FR.bytes_of([scalar] * count), curve.group, threads=2).tobytes() == curve.peer_msm(
        data, [scalar] * count
    )


def test_one_full_bucket_costs_a_lane_few_steps() -> None:
    """However the entries fall, no lane adds more than `LONGEST`."""
    runs = cut(np.arange(100_000, dtype=np.int32), np.array([0, 99_999, 1]))
    assert runs.length.max() == LONGEST and len(runs.length) == -(-99_999 // LONGEST) + 1
    assert runs.length.sum() == 100_000
    assert sorted(set(runs.bucket)) == [1, 2]


def test_several_devices_agree(curve: Curve, rng: random.Random) -> None:
    data, scalars = curve.progression(50), [rng.randrange(FR.p) for _ in range(50)]
    expected = curve.peer_msm(data, scalars)
    bases = FixedBases(data, curve.group)
    assert len(jax.devices()) == 3
    for device in jax.devices():
        with kernels.on(device):
            assert bases.msm(FR.bytes_of(scalars)).tobytes() == expected


def test_wrong_scalars_are_refused(curve: Curve) -> None:
    bases = FixedBases(curve.progression(3), curve.group)
    with pytest.raises(ScalarCountMismatch, match="3 bases"):
        bases.msm(FR.bytes_of([1, 2]))
    with pytest.raises(NonCanonical, match=r"scalars\[1\]"):
        bases.msm(np.stack([FR.bytes_of([1])[0], np.full(32, 255, np.uint8), FR.bytes_of([2])[0]]))


@pytest.mark.parametrize("bits", range(2, digits.MAX_WINDOW + 1))
def test_signed_digits_add_up_to_the_scalar(bits: int, rng: random.Random) -> None:
    scalars = [*EDGE_SCALARS, *(rng.randrange(FR.p) for _ in range(50))]
    found = digits.signed(FR.bytes_of(scalars), bits)
    assert np.abs(found).max() <= 1 << (bits - 1)
    sums = [sum(int(d) << (bits * w) for w, d in enumerate(column)) % FR.p for column in found.T]
    assert sums == scalars


@pytest.mark.parametrize("tables", [1, 2, 3, 5, 17, 64])
@pytest.mark.parametrize("length", [digits.BITS, 129, 65])
def test_tables_cover_every_window(tables: int, length: int) -> None:
    for bits in range(4, 17):
        w = Windows(bits, tables, length)
        assert w.copies <= tables and w.copies * w.sets >= w.count > (w.copies - 1) * w.sets
