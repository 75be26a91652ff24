"""EmptySectorUpdate: rows, witness and a, b, c equal the vectors; small shapes are satisfied, what is wrong is not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from hashlib import sha256

import numpy as np
import pytest

from prover.algebra.fields import FR
from prover.algebra.kernels import compiled_programs
from prover.circuits.constraint_system import ConstraintSystem
from prover.circuits.definitions import count, describe_row, record, witness
from prover.circuits.digest import Digest, elements_digest, first_different_row, r1cs_digest
from prover.circuits.empty_sector_update import empty_sector_update
from prover.circuits.errors import InstanceMismatch, UnsatisfiedConstraint
from prover.circuits.evaluation import Evaluator
from prover.circuits.matrices import matrices_of
from prover.circuits.synthesis import Circuit
from prover.circuits.values import Witness
from prover.filecoin.shapes import GIB, KIB, MIB, ProofKind, SectorShape, UpdateShape, update_shape
from prover.filecoin.update import UpdateInstance
from tests.circuits.instances import joined
from tests.circuits.update_instances import random_update, vector_update
from tests.circuits.vectors import POST, counts, read_json

#: 16 nodes: the smallest circuit with all its parts, of two partitions
SMALL = UpdateShape(ProofKind.SNAP, SectorShape(512, 2, 0, 0), 2, 2, 2)


@cache
def circuit(shape: UpdateShape) -> Circuit:
    return Circuit.load(shape, None)


@cache
def small_instance(partition: int = 1) -> UpdateInstance:
    return random_update(SMALL, 5).instance(partition)


def test_rows_equal_the_vector() -> None:
    matrices, vector = circuit(update_shape(2 * KIB)).matrices, read_json(POST / "update.r1cs.json")
    assert {key: vector[key] for key in counts(matrices)} == counts(matrices)
    published = Digest(vector["r1cs_sha256"], tuple(vector["r1cs_checkpoints"]))
    assert r1cs_digest(matrices).first_difference(published) is None


def test_witness_equals_the_vector() -> None:
    found, vector = witness(update_shape(2 * KIB), vector_update().instance(0)), read_json(POST / "update.r1cs.json")
    published = Digest(vector["aux_sha256"], tuple(vector["aux_checkpoints"]))
    assert elements_digest(found.aux).first_difference(published) is None
    assert [f"{value:064x}" for value in FR.ints_of(found.inputs)] == vector["inputs"]


def test_a_b_c_equal_the_vector() -> None:
    assignment = circuit(update_shape(2 * KIB)).synthesize(vector_update().instance(0), threads=2)
    vector = read_json(POST / "update.poly.json")
    found = {side: sha256(FR.decode(getattr(assignment, side)).tobytes()).hexdigest() for side in "abc"}
    assert found == {side: vector[f"{side}_sha256"] for side in "abc"}


def test_known_bits_are_bits() -> None:
    bits, values = (
        circuit(update_shape(2 * KIB)).matrices.bit_mask,
        witness(update_shape(2 * KIB), vector_update().instance(0)),
    )
    assert bits.sum() == 1_677_471
    assert not values.aux[bits, 1:].any()
    assert values.aux[bits, 0].max() == 1


#: constraints, aux, aux in A, aux in B (None: not published)
PUBLISHED = {
    4 * KIB: (2_165_109, 2_163_189, None, None),
    16 * KIB: (6_300_021, 6_293_944, 6_284_887 - 5, 1_613_423 - 1),
    32 * KIB: (6_760_091, 6_753_564, None, None),
    8 * MIB: (10_007_503, 9_998_039, 9_981_020 - 5, 2_567_922 - 1),
    512 * MIB: (57_450_479, 57_401_314, None, None),
    32 * GIB: (81_049_499, 80_978_488, None, None),
    64 * GIB: (85_006_101, 84_931_220, None, None),
}


@pytest.mark.parametrize("size", PUBLISHED)
def test_counts_of_other_sector_sizes(size: int) -> None:
    found = count(update_shape(size)).counts
    constraints, aux, in_a, in_b = PUBLISHED[size]
    assert (found.constraints, found.inputs, found.aux, found.b_inputs) == (constraints, 5, aux, 1)
    assert in_a is None or (found.a_aux, found.b_aux) == (in_a, in_b)


def test_counts_of_the_1_kib_test_circuit() -> None:
    shape = UpdateShape(ProofKind.SNAP, SectorShape(KIB, 4, 0, 0), 1, 10, 8)
    assert count(shape).num_constraints == 1_248_389


def test_templates_equal_direct_recording() -> None:
    direct = ConstraintSystem(templates=False)
    shape = replace(SMALL, challenges=1)
    empty_sector_update(direct, shape)
    assert first_different_row(matrices_of(direct), record(shape)) is None


@pytest.mark.parametrize("partition", [0, 1])
def test_a_small_sector_is_satisfied_in_each_partition(partition: int) -> None:
    instance = small_instance(partition)
    inputs = FR.ints_of(circuit(SMALL).synthesize(instance).inputs)
    number = partition | 1 << SMALL.partition_bits
    assert inputs == [1, number, instance.comm_r_old, instance.comm_d_new, instance.comm_r_new]


#: several digests of challenges and no path below the apex; four partitions and a sub tree; h chosen among 7 .. 12
OTHERS = {
    "digests": UpdateShape(ProofKind.SNAP, SectorShape(256, 0, 0, 0), 1, 85, 8),
    "partitions": UpdateShape(ProofKind.SNAP, SectorShape(KIB, 4, 0, 0), 4, 1, 2),
    "larger h": UpdateShape(ProofKind.SNAP, SectorShape(128 * KIB, 0, 0, 0), 2, 1, 2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_any_shape_is_satisfied_without_compiling_anew(name: str) -> None:
    shape = OTHERS[name]
    circuit(shape).compile()
    before = compiled_programs()
    circuit(shape).synthesize(random_update(shape, 8, nodes=32).instance(shape.partitions - 1))
    assert compiled_programs() == before


@pytest.mark.acceptance
@pytest.mark.parametrize("partition", [0, 1])
def test_16_kib_are_satisfied(partition: int) -> None:
    shape = update_shape(16 * KIB)
    circuit(shape).synthesize(random_update(shape, 16).instance(partition), threads=2)


def refused(changed: UpdateInstance) -> str:
    with pytest.raises(UnsatisfiedConstraint) as caught:
        circuit(SMALL).synthesize(changed)
    return caught.value.place


def test_a_wrong_instance_is_refused_at_its_place() -> None:
    instance = small_instance()
    assert refused(replace(instance, comm_c=instance.comm_c ^ 1)) == "comm_r_old and comm_r_new equal to their hashes"
    assert refused(replace(instance, partition_path=(1,))) == "path from the partition to comm_d_new"
    swapped = replace(instance, comm_r_last_old=instance.comm_r_last_new)
    assert refused(swapped) == "comm_r_old and comm_r_new equal to their hashes"
    for name in ("old", "new", "data"):
        first, second = instance.challenges
        path = getattr(second, f"{name}_path")
        level = replace(path.path[0], siblings=tuple(sibling ^ 1 for sibling in path.path[0].siblings))
        changed = replace(second, **{f"{name}_path": replace(path, path=(level, *path.path[1:]))})
        assert refused(replace(instance, challenges=(first, changed))) == f"challenge 1, {name} path"


def test_another_shape_is_refused() -> None:
    instance = small_instance()
    with pytest.raises(InstanceMismatch, match=r"^challenges: 1 given, the circuit has 2"):
        witness(SMALL, replace(instance, challenges=instance.challenges[:1]))
    with pytest.raises(InstanceMismatch, match=r"^apex_leaves: 3 given, the circuit has 2"):
        witness(SMALL, replace(instance, apex_leaves=(1, 2, 3)))
    with pytest.raises(InstanceMismatch, match=r"^challenges\[0\].old_path: arities \(8, 2\), not \(8, 4\)"):
        witness(replace(SMALL, sector=SectorShape(1024, 4, 0, 0)), instance)


def tampered(found: Witness, position: int, value: int) -> Witness:
    aux = found.aux.copy()
    aux[position] = FR.bytes_of([value])[0]
    return joined(found.inputs, aux)


def test_every_aux_is_constrained() -> None:
    """Of bits, of carries of sums, and of field elements, none may be changed alone."""
    found = witness(SMALL, small_instance())
    matrices = circuit(SMALL).matrices
    evaluator, rng = Evaluator(matrices), np.random.default_rng(3)
    bits, others = np.flatnonzero(matrices.bit_mask), np.flatnonzero(~matrices.bit_mask)
    for position in [*rng.choice(bits, 8, replace=False), *rng.choice(others, 8, replace=False)]:
        changed = tampered(found, position, 1 ^ FR.ints_of(found.aux[position : position + 1])[0])
        assert len(evaluator.evaluate(changed.columns).wrong), position


def test_a_bit_that_is_none_is_refused_at_its_row() -> None:
    found = witness(SMALL, small_instance())
    with pytest.raises(UnsatisfiedConstraint) as caught:
        circuit(SMALL).assign(tampered(found, 1, 7))
    assert (caught.value.row, caught.value.place) == (1, "partition and h")


def test_rows_past_the_last_are_those_of_the_inputs() -> None:
    rows = count(SMALL).num_constraints
    assert describe_row(SMALL, rows) == "the row of public input 0"
    assert describe_row(SMALL, rows - 1) == "challenge 1, data path"
