"""Sums and transforms in chunks, as on a device whose memory is its own: equal to those in one piece, whatever the size
of the chunks; and a chunk for which there is no room is halved. The devices are CPUs that were given a bound."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prover.algebra import chunks, kernels, ntt, table
from prover.algebra.chunks import Limit
from prover.algebra.curve import G1
from prover.algebra.fields import FR
from prover.algebra.kernels import compiled_programs
from prover.algebra.limbs import Bytes
from prover.algebra.msm import FixedBases
from prover.algebra.ntt import Domain
from tests.algebra.conftest import EDGE_SCALARS, Curve

COUNT = 41


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LEAST", 1 << 8)


@contextmanager
def bounded(nbytes: int, resident: int = 0) -> Iterator[Limit]:
    """This thread's device may hold so much."""
    limit, device = Limit(nbytes, resident), kernels.device()
    chunks.bound(device, limit)
    try:
        with kernels.on(device):
            yield limit
    finally:
        chunks.bound(device, None)


def no_room() -> None:
    """JAX's own error."""
    jax.jit(lambda: jnp.zeros(1 << 48, jnp.uint8) + 1)().block_until_ready()


def room_for(largest: int, put: Callable[..., Any], failed: list[int]) -> Callable[..., Any]:
    """`put` on a device that has no room for more than so many bytes at a time."""

    def try_to_put(array: Any, **how: Any) -> Any:
        if array.nbytes > largest:
            failed.append(array.nbytes)
            no_room()
        return put(array, **how)

    return try_to_put


def data_with_infinity(curve: Curve, count: int = COUNT) -> Bytes:
    points = curve.points_of(curve.progression(count))
    return curve.bytes_of([*points[:5], None, *points[6:]])


def mixed_scalars(rng: random.Random, count: int = COUNT) -> Bytes:
    """Full ones, bits, and for the base at infinity a 1."""
    scalars = [rng.randrange(FR.p) if i % 3 else i % 2 for i in range(count)]
    scalars[5] = 1
    scalars[10 : 10 + len(EDGE_SCALARS)] = EDGE_SCALARS
    return FR.bytes_of(scalars)


def test_without_a_bound_a_cpu_is_not_apart() -> None:
    assert not chunks.apart() and list(chunks.slices(5, 1 << 40, lambda part: part)) == [slice(0, 5)]
    with bounded(1 << 20):
        assert chunks.apart()


@pytest.mark.parametrize("nbytes", [1500, 5000, 20_000, 1 << 30])
@pytest.mark.parametrize(("tables", "images"), [(1, False), (2, True)])
def test_a_sum_in_chunks_is_the_sum(curve: Curve, rng: random.Random, nbytes: int, tables: int, images: bool) -> None:
    """From one base or a few a chunk up to all in one."""
    bases = FixedBases(data_with_infinity(curve), curve.group, tables=tables, window_bits=5, images=images)
    scalars = mixed_scalars(rng)
    expected = bases.msm(scalars).tobytes()
    with bounded(nbytes):
        assert bases.msm(scalars, threads=2).tobytes() == expected


def test_sums_of_nothing_of_one_and_of_bits_in_chunks(curve: Curve) -> None:
    with bounded(1):
        empty = FixedBases(np.zeros((0, curve.group.size), np.uint8), curve.group)
        infinity = empty.msm(np.zeros((0, 32), np.uint8)).tobytes()
        one = FixedBases(curve.progression(1), curve.group)
        assert one.msm(FR.bytes_of([0])).tobytes() == infinity
        assert one.msm(FR.bytes_of([1])).tobytes() == curve.progression(1)[0].tobytes()
        three = FixedBases(curve.progression(3), curve.group)
        assert three.msm(FR.bytes_of([0, 0, 0])).tobytes() == infinity
        assert three.msm(FR.bytes_of([0, 1, 1])).tobytes() == curve.peer_msm(curve.progression(3)[1:], [1, 1])


def test_no_chunk_is_larger_than_the_bound(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of bases, and of sums of buckets."""
    seen: list[int] = []
    put = kernels.put

    def watched(array: Any, **how: Any) -> Any:
        seen.append(array.nbytes)
        return put(array, **how)

    monkeypatch.setattr(table, "put", watched)
    bases = FixedBases(data_with_infinity(Curve(G1)), G1, window_bits=4)
    with bounded(8000):
        bases.msm(mixed_scalars(rng))
    assert len(seen) > 4 and max(seen) <= 8000 + 256, "a chunk, and the row of infinity"


@pytest.mark.parametrize("log2", [0, 1, 7])
@pytest.mark.parametrize("nbytes", [1, 30_000, 1 << 30])
def test_a_transform_in_chunks_is_the_transform(log2: int, nbytes: int, rng: random.Random) -> None:
    domain, x = Domain(log2), FR.encode(FR.bytes_of([rng.randrange(FR.p) for _ in range(1 << log2)]))

    def all_of_it() -> list[bytes]:
        ways = (domain.fft, domain.ifft, domain.coset_fft, domain.coset_ifft)
        found = [FR.decode(way(x, 2)).tobytes() for way in ways]
        return [*found, domain.quotient(x, x, FR.mul_arrays(x, x), 2).tobytes()]

    expected = all_of_it()
    with bounded(nbytes):
        domain.compile()
        before = compiled_programs()
        domain.quotient(x, x, FR.mul_arrays(x, x), 2)
        assert compiled_programs() == before
        assert all_of_it() == expected


def test_chunks_that_do_not_fit_are_halved_and_so_are_all_after(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bases, scalars = FixedBases(data_with_infinity(Curve(G1)), G1, window_bits=4, images=False), mixed_scalars(rng)
    expected, failed = bases.msm(scalars).tobytes(), list[int]()
    monkeypatch.setattr(table, "put", room_for(8000, kernels.put, failed))
    with bounded(1 << 20) as limit, caplog.at_level(logging.WARNING):
        assert bases.msm(scalars).tobytes() == expected
        assert failed and limit.nbytes == COUNT * 256 // 2
        assert f"a chunk of {COUNT * 256} bytes does not fit" in caplog.text
        count = len(failed)
        assert bases.msm(scalars).tobytes() == expected
        assert (limit.nbytes, len(failed)) == (COUNT * 256 // 2, count), "the second sum knows"


def test_a_transform_that_does_not_fit_goes_by_tiles(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, x = Domain(6), FR.encode(FR.bytes_of([rng.randrange(FR.p) for _ in range(64)]))
    expected, first = domain.fft(x), ntt._first

    def narrow(part: Any, *others: Any) -> Any:
        if part.shape[-1] > 2:
            no_room()
        return first(part, *others)

    def whole(*_: Any, **__: Any) -> Any:
        no_room()

    monkeypatch.setattr(ntt, "_first", narrow)
    monkeypatch.setattr(ntt, "_whole", whole)
    with bounded(1 << 30) as limit:
        assert np.array_equal(FR.decode(domain.fft(x, 2)), FR.decode(expected))
        assert limit.nbytes < 64 * 22 * 4 * 16


def test_what_does_not_fit_at_the_least_size_fails_as_jax_says(monkeypatch: pytest.MonkeyPatch) -> None:
    bases = FixedBases(Curve(G1).progression(9), G1, window_bits=4)
    monkeypatch.setattr(table, "put", room_for(0, kernels.put, []))
    with bounded(1 << 20) as limit, pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        bases.msm(FR.bytes_of([5] * 9))
    assert chunks.LEAST <= limit.nbytes < 2 * chunks.LEAST


def test_another_error_halves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise jax.errors.JaxRuntimeError("INTERNAL: the device is lost")

    bases = FixedBases(Curve(G1).progression(9), G1, window_bits=4)
    monkeypatch.setattr(table, "put", lost)
    with bounded(1 << 20) as limit, pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        bases.msm(FR.bytes_of([5] * 9))
    assert limit.nbytes == 1 << 20


def test_of_several_threads_whose_chunks_fail_one_halves() -> None:
    limit = Limit(1 << 20)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: limit.halve(1 << 20), range(64)))
    assert limit.nbytes == 1 << 19


def test_rows_stay_on_the_device_where_there_is_room(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between sums, up to what may stay; and no longer once the chunks have become smaller."""
    puts: list[int] = []
    put = kernels.put

    def watched(array: Any, **how: Any) -> Any:
        puts.append(array.nbytes)
        return put(array, **how)

    monkeypatch.setattr(table, "put", watched)
    first, second = (FixedBases(data_with_infinity(Curve(G1)), G1, window_bits=4) for _ in range(2))
    scalars, rows = mixed_scalars(rng), first.nbytes
    with bounded(1 << 20, resident=rows + rows // 2) as limit:
        for bases, copies in ((first, 1), (first, 0), (second, 1), (second, 1)):
            puts.clear()
            bases.msm(scalars)
            assert puts.count(rows) == copies
        assert not limit.keep(rows)
        limit.halve(rows)
        first.msm(scalars)
        assert limit.keep(rows), "what stayed was dropped"


def test_rows_stay_no_longer_than_their_bases(rng: random.Random) -> None:
    bases, scalars = FixedBases(data_with_infinity(Curve(G1)), G1, window_bits=4), mixed_scalars(rng)
    rows = bases.nbytes
    with bounded(1 << 20, resident=rows) as limit:
        bases.msm(scalars)
        assert not limit.keep(1), "they stay"
        del bases
        assert limit.keep(rows), "their room is free again"
