"""Compilation: sizes share programs, and a second call of anything compiles nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import jax
import numpy as np
import pytest

from prover.algebra import multiples
from prover.algebra.curve import G1
from prover.algebra.fields import FR
from prover.algebra.kernels import compiled_programs
from prover.algebra.msm import FixedBases
from prover.algebra.ntt import Domain
from prover.algebra.sparse import SparseMatrix
from tests.algebra.conftest import Curve

COMPILED = "/jax/core/compile/backend_compile_duration"
TRACED = "/jax/core/compile/jaxpr_trace_duration"


@pytest.fixture
def events() -> Iterator[list[str]]:
    """What JAX reports it traced or compiled while the test runs."""
    seen: list[str] = []

    def listen(event: str, _seconds: float, **_: object) -> None:
        if event in (COMPILED, TRACED):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def random_scalars(count: int) -> np.ndarray:
    rng = random.Random(count)
    return FR.bytes_of([rng.randrange(FR.p) for _ in range(count)])


def everything() -> list[Callable[[int], object]]:
    """The calls of a proof, each taking a seed that changes its data but not its shape."""
    bases = FixedBases(Curve(G1).progression(90), G1, tables=3)
    domain = Domain(6)
    matrix = SparseMatrix(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([0, 1, 0]), FR.bytes_of([3, 1]))

    def quotient(seed: int) -> object:
        a = FR.encode(random_scalars(64 + seed)[:64])
        return domain.quotient(a, a, FR.mul_arrays(a, a), threads=2)

    return [
        quotient,
        lambda seed: bases.msm(random_scalars(90 + seed)[:90], threads=2),
        lambda seed: matrix.product(FR.encode(random_scalars(2 + seed)[:2])),
        lambda seed: multiples.of_generator(G1, random_scalars(5 + seed)[:5]),
    ]


def test_a_second_proof_traces_and_compiles_nothing(events: list[str]) -> None:
    calls = everything()
    for call in calls:
        call(0)
    assert events.count(COMPILED) > 0, "the listener hears nothing: this test would pass whatever happened"
    events.clear()
    before = compiled_programs()
    for call in calls:
        call(1)
    assert events == []
    assert compiled_programs() == before


def test_sums_of_every_size_share_programs(events: list[str]) -> None:
    curve = Curve(G1)
    FixedBases(curve.progression(700), G1, tables=2).msm(random_scalars(700), threads=2)
    events.clear()
    for count, tables in [(1, 1), (37, 4), (700, 1), (1500, 20)]:
        FixedBases(curve.progression(count), G1, tables=tables).msm(random_scalars(count), threads=2)
    assert events == []
