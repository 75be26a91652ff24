"""The counts of the roofline are what the programs do: calls are counted while they run."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from bench import roofline
from bench.roofline import Sum, Work
from prover.algebra import constants, lanes, multiples, ntt
from prover.algebra.bases import Windows
from prover.algebra.curve import G1, G2, Group
from prover.algebra.fields import FP, FR, Field
from prover.algebra.kernels import Kernel, tiles
from prover.algebra.limbs import Bytes
from prover.algebra.msm import FixedBases
from prover.algebra.ntt import Domain
from prover.groth16.layouts import Section


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Kernel, tuple[Any, ...], dict[str, Any]]]:
    """Every program that runs, with what it is given."""
    seen: list[tuple[Kernel, tuple[Any, ...], dict[str, Any]]] = []
    call = Kernel.__call__

    def watched(kernel: Kernel, *arguments: Any, **static: Any) -> Any:
        seen.append((kernel, arguments, static))
        return call(kernel, *arguments, **static)

    monkeypatch.setattr(Kernel, "__call__", watched)
    return seen


@pytest.mark.parametrize(("group", "factor"), [(G1, 1), (G2, 2)])
def test_additions_take_the_reductions_that_their_formulas_say(group: Group, factor: int) -> None:
    mixed, whole = roofline.mixed_addition(group), roofline.addition(group)
    assert (mixed.fp, whole.fp, mixed.fr, whole.fr) == (8 * factor, 9 * factor, 0, 0)
    assert mixed.bytes == 4 + 4 * 64 * factor


def test_a_product_costs_its_two_matrices_and_its_roundings() -> None:
    column = jax.ShapeDtypeStruct((2 * FP.k, 1), np.float64)
    work = roofline.traced(FP.mul, column, column)
    matrices = 2 * FP.k * (2 * FP.k + 1)
    assert work.fp == 1 and matrices + 4 * 4 * FP.k < work.flops < matrices + 6 * 4 * FP.k


def test_a_loop_of_unknown_length_is_not_counted_as_one_round() -> None:
    def loop(count: jax.Array) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, x: x * 2.0, 1.0)

    with pytest.raises(ValueError, match="how often"):
        roofline.traced(loop, jax.ShapeDtypeStruct((), np.int32))


def test_reductions_are_counted_as_they_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transform of 2 x 16 values, run one operation after the other: three reductions a value."""
    counted, reduce = list[int](), Field.reduce

    def watched(field: Field, t: jax.Array) -> jax.Array:
        counted.append(t.size // (2 * field.k))
        return reduce(field, t)

    roots = FR.powers(constants.root_of_unity(5), 32)
    x = ntt._before(roots[:, :, None])
    monkeypatch.setattr(Field, "reduce", watched)
    with jax.disable_jit():
        ntt._transforms(jax.numpy.asarray(x), jax.numpy.asarray(roots))
    assert sum(counted) == roofline.traced(ntt._transforms, x, roots).fr == 3 * 32


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("log2", [4, 7])
def test_the_programs_of_a_quotient_take_as_many_reductions_as_are_counted(
    log2: int, kept: bool, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("_MOST_KEPT", "_MOST_TWIDDLES_KEPT"):
        monkeypatch.setattr(ntt, kind, 18 if kept else -1)
    expected = roofline.quotient(log2)
    domain, ones = Domain(log2), FR.encode_ints32([1] * (1 << log2))
    domain.quotient(ones, ones, ones)  # makes what is kept
    calls.clear()
    domain.quotient(ones, ones, ones)
    own = [call for call in calls if call[0].function.__module__ == ntt.__name__]
    assert {kernel.function.__name__ for kernel, _, _ in calls} - {k.function.__name__ for k, _, _ in own} == {
        "_positional"  # decodes, on tiles that are filled up
    }
    counted = sum(roofline.traced(kernel.function, *arguments).fr for kernel, arguments, _ in own)
    high = 0 if kept else 6 * (1 << (log2 + 1) // 2) * -(-(1 << log2 // 2) // tiles().fft)
    assert counted == expected.fr - (1 << log2) + high  # twiddles made anew: a product more for each row of a tile


def scalars(count: int, full: int, ones: int) -> Bytes:
    made = np.random.default_rng(7).integers(0, 256, (count, 32), np.uint8)
    made[:, 31] &= 0x3F
    made[full:] = 0
    made[full : full + ones, 0] = 1
    return made


@pytest.mark.parametrize("group", [G1, G2], ids=["G1", "G2"])
def test_a_sum_adds_as_many_bases_as_are_counted(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits of 0 are not added: with windows of 5 bits one in 32."""
    count, full, ones = 40, 10, 12
    monkeypatch.setattr(Windows, "best", classmethod(lambda cls, _bases, tables, length: cls(5, tables, length)))
    bases = FixedBases(multiples.of_generator(group, scalars(count, count, 0)), group)
    added, add = list[int](), lanes.add_steps

    def watched(state: Any, rows: Any, entries: jax.Array, steps: Any, **static: Any) -> Any:
        added.extend(np.count_nonzero(np.asarray(tile)[:count]) for tile, count in zip(entries, steps, strict=True))
        return add(state, rows, entries, steps, **static)

    monkeypatch.setattr(lanes, "add_steps", watched)
    bases.msm(scalars(count, full, ones))
    expected = Sum(Section(group, count, full), full, ones).entries
    assert 0.9 * expected < sum(added) <= expected


def test_a_proof_is_counted_on_the_witness_of_its_sample() -> None:
    proof = roofline.proof_of("window-post", None)
    assert (proof.log2, proof.sums["h"].full) == (15, (1 << 15) - 1)
    assert set(proof.sums) == {"h", "l", "a", "b_g1", "b_g2"}
    assert all(0 < one.ones < one.section.size - one.full for name, one in proof.sums.items() if name != "h")
    bound = roofline.bounds(proof, roofline.H200)
    assert 0 < bound["memory"] < bound["float64"] < bound["memory, as XLA fuses"]


def test_work_adds_up() -> None:
    assert Work(1, 2, 3, 4) * 2 + Work(1, 1, 1, 1) == Work(3, 5, 7, 9)
