"""Sums over several devices: the same points as on one and in plain integers, and as much work for each device."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

from prover.algebra import chunks, kernels, lanes
from prover.algebra.buckets import LONGEST
from prover.algebra.curve import G1
from prover.algebra.fields import FR
from prover.algebra.kernels import Kernel
from prover.algebra.mesh import DeviceMesh, DevicesUnfit, dealt
from prover.algebra.msm import FixedBases, compile_sums
from prover.reference import curve as reference
from tests.algebra.conftest import EDGE_SCALARS, Curve
from tests.algebra.test_programs import events  # noqa: F401


@pytest.fixture(scope="module")
def mesh() -> DeviceMesh:
    """Three devices: the number divides few of the sizes below."""
    return DeviceMesh.of(jax.devices())


def on_mesh(mesh: DeviceMesh, bases: FixedBases, scalars: list[int], threads: int = 1) -> bytes:
    with kernels.on(mesh):
        return bases.msm(FR.bytes_of(scalars), threads).tobytes()


def test_no_base_and_one_base(mesh: DeviceMesh, curve: Curve) -> None:
    empty = FixedBases(np.zeros((0, curve.group.size), np.uint8), curve.group)
    assert on_mesh(mesh, empty, []) == reference.to_bytes(None, curve.group.degree)
    one = FixedBases(curve.bytes_of([curve.generator]), curve.group)
    for s in EDGE_SCALARS:
        expected = reference.multiply(curve.generator, s)
        assert on_mesh(mesh, one, [s]) == reference.to_bytes(expected, curve.group.degree)


@pytest.mark.parametrize("scalars", [[5] * 10, [5, 5, 5, 0, 1, FR.p - 1, 3, 7, 0, 2], [1, 1, 2, 9, 4, 4, 8, 0, 0, 1]])
def test_infinity_repeated_and_opposite_bases_are_the_sum_in_plain_integers(
    scalars: list[int], mesh: DeviceMesh, curve: Curve, rng: random.Random
) -> None:
    p, q = curve.random_points(rng, 2)
    points = [p, p, reference.negate(p), None, q, q, reference.negate(q), None, p, q]
    expected = reference.to_bytes(reference.msm(points, scalars), curve.group.degree)
    assert on_mesh(mesh, FixedBases(curve.bytes_of(points), curve.group), scalars) == expected


@pytest.mark.parametrize("count", [2, 3, 4, 31, 400, 1001])
def test_any_number_of_bases_gives_the_sum_of_one_device(
    count: int, mesh: DeviceMesh, curve: Curve, rng: random.Random
) -> None:
    data = curve.progression(count)
    scalars = [rng.choice([0, 1, rng.randrange(FR.p)]) for _ in range(count)]
    bases = FixedBases(data, curve.group, tables=rng.choice([1, 3]))
    expected = bases.msm(FR.bytes_of(scalars)).tobytes()
    assert expected == curve.peer_msm(data, scalars)
    assert [on_mesh(mesh, bases, scalars, threads) for threads in (1, 2)] == [expected] * 2


@pytest.mark.parametrize("scalar", [1, FR.p - 1, 0x1234567890ABCDEF << 180])
def test_equal_bases_with_equal_scalars_double_where_the_devices_sums_meet(
    scalar: int, mesh: DeviceMesh, curve: Curve
) -> None:
    """Every device's sums are one and the same point, so the additions between devices are doublings."""
    count = 3 * LONGEST
    bases = FixedBases(np.repeat(curve.bytes_of([curve.generator]), count, axis=0), curve.group)
    expected = reference.multiply(curve.generator, count * scalar % FR.p)
    assert on_mesh(mesh, bases, [scalar] * count) == reference.to_bytes(expected, curve.group.degree)


class Work:
    """The entries that each device was given to add, and where the sums were made."""

    def __init__(self) -> None:
        self.entries: Counter[jax.Device] = Counter()
        self.places: set[frozenset[jax.Device]] = set()

    def add(self, entries: jax.Array, steps: jax.Array, outputs: Any) -> None:
        tiles = np.split(np.asarray(steps), len(entries.addressable_shards))
        for shard, counts in zip(entries.addressable_shards, tiles, strict=True):
            step = np.arange(shard.data.shape[1])[:, None]
            self.entries[shard.device] += int(np.count_nonzero((step < counts[:, None, None]) & (shard.data != 0)))
        self.places |= {frozenset(array.devices()) for array in jax.tree.leaves(outputs)}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    seen, call = Work(), Kernel.__call__

    def watched(kernel: Kernel, *arguments: Any, **static: Any) -> Any:
        outputs = call(kernel, *arguments, **static)
        if kernel is lanes.add_steps:
            seen.add(arguments[2], arguments[3], outputs)
        return outputs

    monkeypatch.setattr(Kernel, "__call__", watched)
    return seen


def witnesses(count: int) -> dict[str, list[int]]:
    rng = random.Random(count)
    large = [rng.randrange(2, FR.p) for _ in range(count)]
    half = count // 2
    return {
        "bits": [rng.randrange(2) for _ in range(count)],
        "ones": [1] * count,
        "bits, then wires of all sizes": [*(rng.randrange(2) for _ in range(half)), *large[half:]],
        "nothing, then wires of all sizes": [0] * half + large[half:],
        "one value": [large[0]] * count,
        "wires of all sizes": large,
    }


@pytest.mark.parametrize("kind", list(witnesses(2)))
def test_every_device_adds_as_many_entries_to_one_run(kind: str, mesh: DeviceMesh, work: Work) -> None:
    """However the scalars fall, the devices' numbers of entries differ by at most `LONGEST`, the longest run."""
    curve, count = Curve(G1), 2501
    scalars = witnesses(count)[kind]
    data = np.repeat(curve.progression(61), 41, axis=0)
    sums = on_mesh(mesh, FixedBases(data, G1, images=False, window_bits=7), scalars)
    assert work.places == {frozenset(mesh.devices)}
    entries = np.array([work.entries[device] for device in mesh.devices])
    assert np.ptp(entries) <= LONGEST and entries.sum() >= sum(s != 0 for s in scalars)
    assert entries.max() <= (1.25 if kind in ("bits", "ones") else 1.01) * entries.mean()  # few runs, or many
    assert sums == curve.peer_msm(data, scalars)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 12])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_lanes_are_dealt_out_in_turn(count: int, devices: int) -> None:
    lane = dealt(count, devices, 100)
    assert len(set(lane)) == count and (lane % 100 == np.arange(count) // devices).all()
    assert (lane // 100 == np.arange(count) % devices).all()


def test_after_the_warm_up_a_sum_on_the_devices_compiles_nothing(mesh: DeviceMesh, events: list[str]) -> None:  # noqa: F811
    bases = FixedBases(Curve(G1).progression(90), G1)
    with kernels.on(mesh):
        compile_sums(G1)
    jax.jit(lambda x: x - 2)(1)
    assert events, "the listener hears nothing: this test would pass whatever happened"
    before = kernels.compiled_programs()
    events.clear()
    on_mesh(mesh, bases, list(range(90)), threads=2)
    assert events == [] and kernels.compiled_programs() == before


def test_devices_that_cannot_share_a_sum_are_refused() -> None:
    one = jax.devices()[0]
    for devices in ([], [one, one]):
        with pytest.raises(DevicesUnfit, match="different devices"):
            DeviceMesh.of(devices)


def test_devices_of_bounded_memory_hold_the_rows_and_gather_them_in_chunks(
    mesh: DeviceMesh, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As devices that are no CPUs do: rows whole on each device, in chunks, taken there by a program of all."""
    monkeypatch.setattr(chunks, "LEAST", 1 << 17)
    curve, count = Curve(G1), 1001
    data, scalars = curve.progression(count), [rng.choice([0, 1, rng.randrange(FR.p)]) for _ in range(count)]
    chunks.bound(mesh, chunks.Limit(1 << 18))
    try:
        assert on_mesh(mesh, FixedBases(data, G1), scalars, threads=2) == curve.peer_msm(data, scalars)
    finally:
        chunks.bound(mesh, None)
