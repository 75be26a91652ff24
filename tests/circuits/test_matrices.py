"""The recorded matrices equal those of the Rust stack: every row, term and coefficient, in order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.circuits import por
from prover.circuits.constraint_system import ConstraintSystem
from prover.circuits.digest import Digest, first_different_row, r1cs_digest
from prover.circuits.matrices import Matrices, matrices_of
from prover.circuits.poseidon import PoseidonHash
from prover.filecoin.shapes import KIB, MIB, PostShape, ProofKind, post_shape, sector_shape
from tests.circuits.vectors import (
    GADGET_VECTORS,
    GADGETS,
    POST,
    SHA_VECTORS,
    SHAPES,
    TINY,
    assert_equals_dump,
    counts,
    large,
    read_dump,
    read_json,
    record_gadget,
    record_post,
)

BOTH_WAYS = pytest.mark.parametrize("templates", [False, True], ids=["direct", "templates"])


def assert_equals_json(matrices: Matrices, expected: dict[str, object]) -> None:
    assert {key: expected[key] for key in counts(matrices)} == counts(matrices)
    published = Digest(expected["r1cs_sha256"], tuple(expected["r1cs_checkpoints"]))
    assert r1cs_digest(matrices).first_difference(published) is None


@BOTH_WAYS
@pytest.mark.parametrize("name", GADGET_VECTORS)
def test_gadgets(name: str, templates: bool) -> None:
    matrices = matrices_of(record_gadget(name, templates=templates))
    assert_equals_json(matrices, read_json(GADGETS / f"{name}.json"))
    assert_equals_dump(matrices, read_dump(GADGETS / f"{name}.npz"))


@pytest.mark.parametrize("name", SHA_VECTORS)
def test_sha_gadgets(name: str) -> None:
    assert_equals_json(matrices_of(record_gadget(name)), read_json(GADGETS / f"{name}.json"))


def test_sha_templates_equal_direct_recording() -> None:
    direct = matrices_of(record_gadget("sha256_hash2", templates=False))
    assert_equals_json(direct, read_json(GADGETS / "sha256_hash2.json"))


@BOTH_WAYS
@pytest.mark.parametrize("name", ["tiny", "window"])
def test_post_circuits(name: str, templates: bool) -> None:
    matrices = matrices_of(record_post(SHAPES[name], templates=templates))
    assert_equals_json(matrices, read_json(POST / f"{name}.r1cs.json"))
    assert_equals_dump(matrices, read_dump(POST / f"{name}.npz"))


def test_winning_post_digest() -> None:
    assert_equals_json(matrices_of(record_post(SHAPES["winning"])), read_json(POST / "winning.r1cs.json"))


@pytest.mark.vectors
def test_winning_post_dump() -> None:
    assert_equals_dump(matrices_of(record_post(SHAPES["winning"])), read_dump(large("winning.npz")))


#: constraints, inputs with ONE, aux, aux in A and b_input + aux in B of the published circuits
PUBLISHED_COUNTS = {
    (ProofKind.WINDOW_POST, 4 * KIB): (28_146, 23, 28_428, None, None),
    (ProofKind.WINNING_POST, 4 * KIB): (111_474, 133, 112_464, None, None),
    (ProofKind.WINDOW_POST, 16 * KIB): (32_466, 23, 32_868, 24_910, 23_809),
    (ProofKind.WINNING_POST, 16 * KIB): (125_730, 133, 127_116, 96_162, 92_467),
    (ProofKind.WINDOW_POST, 32 * KIB): (38_746, 23, 39_168, None, None),
    (ProofKind.WINNING_POST, 32 * KIB): (146_454, 133, 147_906, None, None),
    (ProofKind.WINDOW_POST, 8 * MIB): (64_266, 23, 65_088, 49_330, 47_149),
    (ProofKind.WINNING_POST, 8 * MIB): (230_670, 133, 233_442, 176_748, 169_489),
    (ProofKind.WINDOW_POST, 16 * MIB): (70_546, 23, 71_388, 54_070, 51_849),
    (ProofKind.WINNING_POST, 16 * MIB): (251_394, 133, 254_232, 192_390, 184_999),
}


@pytest.mark.parametrize(("kind", "size"), PUBLISHED_COUNTS)
def test_counts_of_other_sector_sizes(kind: ProofKind, size: int) -> None:
    constraints, inputs, aux, in_a, in_b = PUBLISHED_COUNTS[kind, size]
    found = counts(matrices_of(record_post(post_shape(kind, size))))
    assert (found["num_constraints"], found["num_inputs"], found["num_aux"]) == (constraints, inputs, aux)
    assert in_a is None or (found["a_aux_density"], found["len_b"]) == (in_a, in_b)


@pytest.mark.parametrize("size", [4 * KIB, 32 * KIB])
def test_templates_equal_direct_recording_with_sub_and_top_trees(size: int) -> None:
    shape = PostShape(ProofKind.WINDOW_POST, sector_shape(size), 2, 2)
    direct, replicated = (matrices_of(record_post(shape, templates=templates)) for templates in (False, True))
    assert first_different_row(direct, replicated) is None
    assert r1cs_digest(direct) == r1cs_digest(replicated)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([2, 4, 8]), min_size=0, max_size=3), st.booleans())
def test_templates_equal_direct_recording_of_any_path(arities: list[int], private: bool) -> None:
    gadget = por.PathToRoot(tuple(arities), private)
    recordings = []
    for templates in (False, True):
        cs = ConstraintSystem(templates=templates)
        cs.instance(gadget)
        recordings.append(r1cs_digest(matrices_of(cs)))
    assert recordings[0] == recordings[1]


def test_a_difference_is_located() -> None:
    matrices = matrices_of(record_post(SHAPES["window"]))
    coef = matrices.a.coef.copy()
    row = 13_579
    coef[matrices.a.indptr[row]] ^= 1
    damaged = dataclasses.replace(matrices, a=dataclasses.replace(matrices.a, coef=coef))
    assert r1cs_digest(matrices).first_difference(r1cs_digest(damaged)) == range(12_288, 16_384)
    assert first_different_row(matrices, damaged) == row
    assert first_different_row(matrices, matrices) is None


def test_a_missing_row_is_located() -> None:
    matrices, shorter = (matrices_of(record_post(shape)) for shape in (SHAPES["window"], TINY))
    assert first_different_row(shorter, matrices) == 0  # another number of inputs moves the columns
    assert r1cs_digest(shorter).first_difference(r1cs_digest(matrices)) == range(0, 4096)


def test_terms_are_sorted_reduced_and_distinct() -> None:
    matrices = matrices_of(record_post(TINY))
    for matrix in (matrices.a, matrices.b, matrices.c):
        for start, end in zip(matrix.indptr, matrix.indptr[1:], strict=False):
            assert np.all(np.diff(matrix.col[start:end]) > 0)
    values = {bytes(value) for value in matrices.coefs}
    assert len(values) == len(matrices.coefs)
    assert bytes(32) not in values


def test_a_templates_variables_must_be_distinct() -> None:
    cs = ConstraintSystem()
    variable = cs.alloc()
    with pytest.raises(ValueError, match="must be distinct"):
        cs.instance(PoseidonHash(2), variable, variable)
