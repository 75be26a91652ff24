"""Synthesis: a, b, c equal the Rust stack's; every shape is satisfied; what is wrong is refused, its row named."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from prover.algebra.fields import FR
from prover.algebra.kernels import compiled_programs
from prover.circuits.errors import UnsatisfiedConstraint
from prover.circuits.evaluation import Evaluator
from prover.circuits.fallback_post import describe_row, sector_rows
from prover.circuits.matrices import Matrices, SparseRows, matrices_of
from prover.circuits.residues import unsatisfied
from prover.circuits.synthesis import Circuit
from prover.circuits.witness import fallback_post_witness
from prover.filecoin.post import PostInstance, partitions
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import KIB, MIB, ProofKind, post_shape, sector_shape
from tests.circuits.instances import joined, random_instance, vector_instance
from tests.circuits.vectors import (
    DATA,
    GADGET_VECTORS,
    GADGETS,
    POST,
    SHAPES,
    TINY,
    read_dump,
    read_json,
    record_gadget,
)


@cache
def circuit(name: str) -> Circuit:
    return Circuit.load(SHAPES[name], None)


@pytest.mark.parametrize("name", ["tiny", "window", "winning"])
def test_a_b_c_equal_the_vectors(name: str) -> None:
    assignment = circuit(name).synthesize(vector_instance(name))
    vector = read_json(POST / f"{name}.poly.json")
    assert assignment.a.shape == (22, vector["rows_with_input_rows"])
    found = {side: sha256(FR.decode(getattr(assignment, side)).tobytes()).hexdigest() for side in "abc"}
    assert found == {side: vector[f"{side}_sha256"] for side in "abc"}


def plain_product(matrices: Matrices, rows: SparseRows, z: list[int]) -> list[int]:
    """The product on integers."""
    coefs = FR.ints_of(matrices.coefs)
    terms = [coefs[k] * z[i] for k, i in zip(rows.coef, rows.col, strict=True)]
    return [sum(terms[i:j]) % FR.p for i, j in zip(rows.indptr, rows.indptr[1:], strict=False)]


@pytest.mark.parametrize("satisfied", [True, False])
def test_products_equal_those_on_integers(satisfied: bool) -> None:
    """The witness of the vector, and random columns: those break the linear rows, which are then summed one by one."""
    matrices = circuit("tiny").matrices
    witness = fallback_post_witness(TINY, vector_instance("tiny"))
    z = FR.ints_of(np.concatenate([witness.inputs, witness.aux]))
    if not satisfied:
        rng = np.random.default_rng(1)
        z = [1, *(int.from_bytes(rng.bytes(32), "little") % FR.p for _ in z[1:])]
    evaluated = Evaluator(matrices).evaluate(FR.bytes_of(z))
    a, b, c = (FR.ints_of(FR.decode(side)) for side in evaluated[:3])
    assert (len(evaluated.wrong) == 0) == satisfied
    assert a == plain_product(matrices, matrices.a, z) + z[: matrices.num_inputs]
    assert b == plain_product(matrices, matrices.b, z) + [0] * matrices.num_inputs
    assert c == plain_product(matrices, matrices.c, z) + [0] * matrices.num_inputs


def test_a_deadline_is_satisfied_with_the_published_inputs() -> None:
    """Thirteen partitions; the last holds one sector, repeated."""
    published = read_json(DATA / "deadline" / "deadline.json")["partitions"]
    request = parse_json((DATA / "deadline" / "request.json").read_bytes())
    for partition, expected in zip(partitions(request), published, strict=True):
        inputs = FR.ints_of(circuit("window").synthesize(partition.instance).inputs)
        assert inputs == [1, *partition.public_inputs]
        assert [f"{value:064x}" for value in inputs[1:]] == expected["public_inputs"]


@pytest.mark.parametrize("name", GADGET_VECTORS)
def test_gadgets_are_satisfied_by_the_vectors_witness(name: str) -> None:
    matrices, dump = matrices_of(record_gadget(name)), read_dump(GADGETS / f"{name}.npz")
    z = np.concatenate([dump["inputs"], dump["aux"]])
    a, b, c, wrong = Evaluator(matrices).evaluate(z)
    assert len(wrong) == 0
    assert FR.ints_of(FR.decode(a))[: matrices.num_constraints] == plain_product(matrices, matrices.a, FR.ints_of(z))
    assert len(unsatisfied(a, b, c)) == 0


OTHER_SHAPES = [
    (kind, size)
    for kind in (ProofKind.WINDOW_POST, ProofKind.WINNING_POST)
    for size in (2 * KIB, 4 * KIB, 16 * KIB, 32 * KIB, 8 * MIB)
]


@pytest.mark.parametrize(("kind", "size"), OTHER_SHAPES)
def test_every_shape_is_satisfied_by_consistent_trees(kind: ProofKind, size: int) -> None:
    shape = post_shape(kind, size)
    assignment = Circuit.load(shape, None).synthesize(random_instance(shape, seed=size))
    assert assignment.inputs.shape == (shape.num_inputs, 32)
    assert assignment.a.shape == assignment.b.shape == assignment.c.shape


def test_threads_do_not_change_the_assignment() -> None:
    one, two = (circuit("window").synthesize(vector_instance("window"), threads) for threads in (1, 2))
    for part in ("inputs", "aux", "a", "b", "c"):
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))


def test_a_synthesis_compiles_nothing_after_compile() -> None:
    shape = post_shape(ProofKind.WINDOW_POST, 4 * KIB)
    other = Circuit.load(shape, None)
    other.compile()
    before = compiled_programs()
    for seed in (1, 2):
        other.synthesize(random_instance(shape, seed))
    assert compiled_programs() == before


def refused(name: str, instance: PostInstance) -> UnsatisfiedConstraint:
    with pytest.raises(UnsatisfiedConstraint) as caught:
        circuit(name).synthesize(instance)
    return caught.value


def test_a_wrong_comm_r_is_refused_at_its_row() -> None:
    instance = vector_instance("window")
    first, second = instance.sectors
    error = refused("window", PostInstance((first, replace(second, comm_r=second.comm_r ^ 1))))
    assert error.place == "sector 1, comm_r equal to its hash"
    assert error.row == sector_rows(SHAPES["window"]) + 312
    assert error.code == "unsatisfied_constraint"
    assert str(error) == f"row {error.row} is not satisfied (sector 1, comm_r equal to its hash); 1 rows fail"


@pytest.mark.parametrize("part", ["leaf", "sibling", "index"])
def test_a_wrong_path_is_refused_at_its_root(part: str) -> None:
    instance = vector_instance("window")
    sector = instance.sectors[0]
    path = sector.paths[7]
    if part == "leaf":
        path = replace(path, leaf=path.leaf ^ 1)
    elif part == "sibling":
        level = path.path[0]
        path = replace(
            path, path=(replace(level, siblings=(level.siblings[0] ^ 1, *level.siblings[1:])), *path.path[1:])
        )
    else:
        path = replace(path, path=(replace(path.path[0], index=path.path[0].index ^ 1), *path.path[1:]))
    sector = replace(sector, paths=(*sector.paths[:7], path, *sector.paths[8:]))
    error = refused("window", PostInstance((sector, instance.sectors[1])))
    assert error.place == "sector 0, challenge 7, computed root equal to comm_r_last"


#: aux of the tiny witness -> the first row that names it
TAMPERED = {
    2: "sector 0, comm_r as input",
    3: "sector 0, hash of comm_c and comm_r_last",
    313: "sector 0, hash of comm_c and comm_r_last",
    315: "sector 0, challenge 0, level 0 of arity 8, index bits, row 0",
    325: "sector 0, challenge 0, level 0 of arity 8, insertion, row 0",
    347: "sector 0, challenge 0, level 0 of arity 8, hash, row 0",
    600: "sector 0, challenge 0, level 0 of arity 8, hash, row",
    1388: "sector 0, challenge 0, level 1 of arity 8, hash, row 504",
}


@pytest.mark.parametrize("position", TAMPERED)
def test_a_tampered_witness_is_refused_with_the_row_named(position: int) -> None:
    witness = fallback_post_witness(TINY, vector_instance("tiny"))
    aux = witness.aux.copy()
    aux[position] = FR.bytes_of([FR.ints_of(aux[position : position + 1])[0] + 2])[0]
    with pytest.raises(UnsatisfiedConstraint) as caught:
        circuit("tiny").assign(joined(witness.inputs, aux))
    assert caught.value.place.startswith(TAMPERED[position])


def test_a_tampered_public_input_is_refused() -> None:
    witness = fallback_post_witness(TINY, vector_instance("tiny"))
    for position, place in ((1, "sector 0, comm_r as input"), (2, "sector 0, challenge 0, leaf index as input")):
        inputs = witness.inputs.copy()
        inputs[position, 0] ^= 1
        with pytest.raises(UnsatisfiedConstraint) as caught:
            circuit("tiny").assign(joined(inputs, witness.aux))
        assert caught.value.place == place


def test_every_aux_is_constrained() -> None:
    """No value may be changed alone."""
    witness = fallback_post_witness(TINY, vector_instance("tiny"))
    rng = np.random.default_rng(7)
    for position in rng.choice(len(witness.aux), 40, replace=False):
        aux = witness.aux.copy()
        aux[position, 0] ^= 4
        with pytest.raises(UnsatisfiedConstraint):
            circuit("tiny").assign(joined(witness.inputs, aux))


def test_rows_are_described_for_trees_with_sub_and_top() -> None:
    shape = post_shape(ProofKind.WINDOW_POST, 32 * KIB)
    last = sector_rows(shape) * shape.sectors - 1
    assert describe_row(shape, last) == "sector 1, challenge 9, computed root equal to comm_r_last"
    assert describe_row(shape, last - 1) == "sector 1, challenge 9, leaf index as input"
    assert describe_row(shape, last - 2) == "sector 1, challenge 9, level 3 of arity 2, hash, row 310"
    assert describe_row(shape, last - 2 - 314) == "sector 1, challenge 9, level 2 of arity 8, hash, row 504"
    assert describe_row(shape, 0) == "sector 0, comm_r as input"
    assert describe_row(shape, last + 1) == "the row of public input 0"
    assert shape.sector == sector_shape(32 * KIB)


def test_a_circuit_is_recorded_once_and_then_read(tmp_path: Path) -> None:
    recorded = Circuit.load(TINY, tmp_path)
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    loaded = Circuit.load(TINY, tmp_path)
    assert file.name == f"{TINY.cache_name}.r1cs"
    assert file.stat().st_mtime_ns == before
    instance = vector_instance("tiny")
    np.testing.assert_array_equal(recorded.synthesize(instance).a, loaded.synthesize(instance).a)
