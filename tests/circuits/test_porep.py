"""The PoRep circuit against the Rust stack: rows, witness and products of the published sector; and other sectors."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from hashlib import sha256

import numpy as np
import pytest

from prover.algebra.fields import FR
from prover.circuits.definitions import count, describe_row, prepare
from prover.circuits.digest import Digest, elements_digest, r1cs_digest
from prover.circuits.errors import InstanceMismatch, UnsatisfiedConstraint
from prover.circuits.porep_witness import porep_witness
from prover.circuits.sha256_trace import message_trace
from prover.circuits.synthesis import Circuit
from prover.circuits.values import Witness
from prover.filecoin import fr, sample, sealing
from prover.filecoin.c1_check import PorepPartition
from prover.filecoin.partitions import partitions
from prover.filecoin.porep import PorepChallenge, PorepInstance, challenged_nodes, public_inputs
from prover.filecoin.poseidon import poseidon
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import GIB, KIB, MIB, PorepShape, ProofKind, SectorShape, porep_shape
from tests.circuits.vectors import POST, counts, read_json

SHAPE = porep_shape(2 * KIB)
#: as many challenges a partition, so the same circuit and keys
THREE_PARTITIONS = replace(SHAPE, partitions=3)
#: 128 nodes under all three kinds of tree
SMALL = PorepShape(ProofKind.POREP, SectorShape(4 * KIB, 8, 2, 2), 2, 1, 1)
PUBLISHED = read_json(POST / "porep.r1cs.json")
SECTOR = read_json(POST / "public.json")["porep"]
SEED = bytes.fromhex(SECTOR["seed"])


@cache
def circuit(shape: PorepShape = SHAPE) -> Circuit:
    return Circuit.load(shape, None)


@cache
def sealed(tag: str, shape: PorepShape = SHAPE) -> sealing.SealedSector:
    size = shape.sector.size
    return sealing.seal(
        shape.sector,
        sealing.pad(sample.stream(f"{tag} data 1", size // 128 * 127)),
        sector_id=1,
        miner_id=sample.MINER,
        ticket=sample.canonical(f"{tag} ticket 1"),
        registered_seal_proof=sample.SEAL_PROOF,
        layers=shape.layers,
    )


def nodes_of(tag: str, shape: PorepShape, number: int) -> tuple[int, ...]:
    sector, positions = sealed(tag, shape), range(number * shape.challenges, (number + 1) * shape.challenges)
    return challenged_nodes(sector.graph, sector.replica_id, fr.to_bytes(sector.comm_r), SEED, positions)


def partition(tag: str, shape: PorepShape = SHAPE, number: int = 0) -> PorepInstance:
    sector = sealed(tag, shape)
    return PorepInstance(
        replica_id=int.from_bytes(sector.replica_id, "little"),
        comm_d=sector.data_tree.root,
        comm_r=sector.comm_r,
        comm_c=sector.comm_c,
        comm_r_last=sector.comm_r_last,
        challenges=tuple(challenge(sector, node) for node in nodes_of(tag, shape, number)),
    )


def challenge(sector: sealing.SealedSector, node: int) -> PorepChallenge:
    return PorepChallenge(
        node=node,
        data=sector.data_tree.prove(node),
        drg_parents=tuple(map(sector.column, sector.graph.drg_parents(node))),
        expander_parents=tuple(map(sector.column, sector.graph.expander_parents(node))),
        column=sector.column(node),
        replica=sector.replica_tree.prove(node),
    )


@cache
def published_witness() -> Witness:
    return porep_witness(SHAPE, partition("2k-a"))


def assert_satisfied(shape: PorepShape, tag: str, number: int = 0) -> None:
    """With the public inputs that a verifier derives."""
    instance = partition(tag, shape, number)
    inputs = FR.ints_of(circuit(replace(shape, partitions=1)).synthesize(instance, threads=2).inputs)
    values = (instance.replica_id, instance.comm_d, instance.comm_r)
    assert inputs == [1, *public_inputs(sealed(tag, shape).graph, *values, nodes_of(tag, shape, number))]


def test_the_published_c1_is_this_sector_s_partition() -> None:
    (found,) = partitions(parse_json((POST / "requests" / "porep-c2.json").read_bytes()))
    assert isinstance(found, PorepPartition)
    assert found.instance == partition("2k-a")
    assert [f"{value:064x}" for value in found.public_inputs] == PUBLISHED["inputs"][1:]


def test_rows_equal_the_vector() -> None:
    matrices = circuit().matrices
    assert counts(matrices) == {name: PUBLISHED[name] for name in counts(matrices)}
    published = Digest(PUBLISHED["r1cs_sha256"], tuple(PUBLISHED["r1cs_checkpoints"]))
    assert r1cs_digest(matrices).first_difference(published) is None


def test_the_witness_equals_the_vector() -> None:
    witness = published_witness()
    assert [f"{value:064x}" for value in FR.ints_of(witness.inputs)] == PUBLISHED["inputs"]
    published = Digest(PUBLISHED["aux_sha256"], tuple(PUBLISHED["aux_checkpoints"]))
    assert elements_digest(witness.aux).first_difference(published) is None


def test_a_b_c_equal_the_vector() -> None:
    assignment, vector = circuit().assign(published_witness(), threads=2), read_json(POST / "porep.poly.json")
    assert assignment.a.shape == (22, vector["rows_with_input_rows"])
    for side in "abc":
        found = sha256(FR.decode(getattr(assignment, side), threads=2).tobytes()).hexdigest()
        assert found == vector[f"{side}_sha256"], side


@pytest.mark.parametrize("number", range(THREE_PARTITIONS.partitions))
def test_partitions_of_another_sector_are_satisfied(number: int) -> None:
    assert THREE_PARTITIONS.key_name == SHAPE.key_name
    assert_satisfied(THREE_PARTITIONS, "another sector", number)


def test_a_prepared_circuit_makes_no_more_constants() -> None:
    prepare(SMALL)
    before = message_trace.cache_info().misses, poseidon.cache_info().misses
    porep_witness(SMALL, partition("small", SMALL))
    assert (message_trace.cache_info().misses, poseidon.cache_info().misses) == before


def test_a_sector_under_sub_and_top_trees_is_satisfied() -> None:
    assert_satisfied(SMALL, "small")


@pytest.mark.acceptance
@pytest.mark.parametrize("shape", [
    *(porep_shape(size) for size in (4 * KIB, 16 * KIB, 32 * KIB)),
    PorepShape(ProofKind.POREP, SectorShape(256, 0, 0, 2), 11, 1, 1),
], ids=lambda shape: f"{shape.sector.nodes} nodes, {shape.layers} layers")  # fmt: skip
def test_sectors_of_other_shapes_are_satisfied(shape: PorepShape) -> None:
    assert_satisfied(shape, "other shape")
    circuit.cache_clear()


#: constraints, aux, aux in A, aux in B (None: not published)
COUNTS = {
    4 * KIB: (2_788_733, 2_786_423, None, None),
    16 * KIB: (2_977_173, 2_974_867, 2_959_970 - 40, 766_964 - 1),
    32 * KIB: (3_077_985, 3_075_617, None, None),
    8 * MIB: (3_844_929, 3_842_449, 3_815_036 - 40, 1_011_290 - 1),
    32 * GIB: (130_278_541, 130_169_893, None, None),
    64 * GIB: (131_185_849, 131_076_643, None, None),
}


@pytest.mark.parametrize(
    "size", [pytest.param(s, marks=pytest.mark.acceptance) if s == 64 * GIB else s for s in COUNTS]
)
def test_counts_of_other_sector_sizes(size: int) -> None:
    shape = porep_shape(size)
    found = count(shape).counts
    constraints, aux, in_a, in_b = COUNTS[size]
    assert (found.constraints, found.inputs, found.aux) == (constraints, shape.num_inputs, aux)
    assert found.b_inputs == 1
    assert in_a is None or (found.a_aux, found.b_aux) == (in_a, in_b)


#: circuits that the Rust stack's own tests count: nodes, sub, top -> constraints
@pytest.mark.parametrize(("nodes", "sub", "top", "constraints"), [(32, 4, 0, 1_296_576), (64, 4, 2, 1_346_982)])
def test_counts_of_small_trees(nodes: int, sub: int, top: int, constraints: int) -> None:
    found = count(PorepShape(ProofKind.POREP, SectorShape(32 * nodes, sub, top, 2), 2, 1, 1))
    assert (found.num_constraints, found.counts.inputs) == (constraints, 22)


def spoiled(part: str) -> PorepInstance:
    """The small sector's partition with a fault."""
    sector, instance = sealed("small", SMALL), partition("small", SMALL)
    (proof,) = instance.challenges
    data, column, parent = proof.data, proof.column, proof.expander_parents[3]
    changed = {
        "data": {"data": replace(data, leaf=data.leaf ^ 1)},
        "replica": {"replica": sector.replica_tree.prove(proof.node ^ 1)},
        "column": {"column": replace(column, path=sector.column_tree.prove(proof.node ^ 1))},
        "node": {"node": proof.node ^ 1},  # has other labels
        "parent": {
            "expander_parents": (
                *proof.expander_parents[:3],
                replace(parent, labels=(parent.labels[0] ^ 1, parent.labels[1])),
                *proof.expander_parents[4:],
            )
        },
    }[part]
    return replace(instance, challenges=(replace(proof, **changed),))


PLACES = {
    "data": "challenge 0, data path",
    "replica": "challenge 0, replica path",
    "column": "challenge 0, column path",
    "node": "challenge 0, replica path",
    "parent": "challenge 0, parent 9",
}


@pytest.mark.parametrize("part", PLACES)
def test_a_fault_is_found_and_placed(part: str) -> None:
    with pytest.raises(UnsatisfiedConstraint) as failure:
        circuit(SMALL).synthesize(spoiled(part), threads=2)
    assert failure.value.place == PLACES[part]


def test_the_rows_of_inputs_are_named() -> None:
    assert describe_row(SMALL, count(SMALL).num_constraints + 3) == "the row of public input 3"
    assert describe_row(SMALL, 0) == "head"


@pytest.mark.parametrize(("bit", "flip"), [(True, 1), (True, 4), (False, 4)], ids=["other bit", "no bit", "number"])
def test_no_value_may_be_changed_alone(bit: bool, flip: int) -> None:
    witness, rng = porep_witness(SMALL, partition("small", SMALL)), np.random.default_rng(3)
    columns = witness.columns.copy()
    columns[witness.num_inputs + rng.choice(np.flatnonzero(circuit(SMALL).matrices.bit_mask == bit)), 0] ^= flip
    with pytest.raises(UnsatisfiedConstraint):
        circuit(SMALL).assign(replace(witness, columns=columns), threads=2)


def test_an_instance_of_another_shape_is_refused() -> None:
    instance = partition("2k-a")
    with pytest.raises(InstanceMismatch, match="1 given, the circuit has 2") as failure:
        porep_witness(SHAPE, replace(instance, challenges=instance.challenges[:1]))
    assert failure.value.field == "challenges"
    first, second = instance.challenges
    column = replace(second.drg_parents[4], labels=second.drg_parents[4].labels[:1])
    second = replace(second, drg_parents=(*second.drg_parents[:4], column, *second.drg_parents[5:]))
    with pytest.raises(InstanceMismatch) as failure:
        porep_witness(SHAPE, replace(instance, challenges=(first, second)))
    assert failure.value.field == "challenges[1].drg_parents[4].labels"
