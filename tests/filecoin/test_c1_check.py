"""PoRep: public inputs against the Rust stack; whatever a false C1 output says, it is refused before it is proved."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from prover.errors import CuzkError, InvalidInput
from prover.filecoin import c1_check, partitions, poseidon
from prover.filecoin.errors import (
    ColumnMismatch,
    CommRMismatch,
    EncodingMismatch,
    LabelMismatch,
    MerklePathMismatch,
    NonCanonicalElement,
    ReplicaIdMismatch,
    WrongChallenge,
    WrongParent,
)
from prover.filecoin.porep import PorepInstance

from .samples import POREP, c1_document, changed, parsed, spoiled_c1, vectors, wrapped
from .test_c1 import CHALLENGES, PLACE, put

PUBLIC = vectors("2k/public.json")["porep"]
PUBLISHED = parsed(POREP)


def test_public_inputs_are_those_of_the_circuit() -> None:
    (partition,) = c1_check.partitions(PUBLISHED)
    assert [f"{value:064x}" for value in partition.public_inputs] == PUBLIC["public_inputs"]
    assert len(partition.public_inputs) == partition.shape.num_inputs - 1
    assert c1_check.public_inputs(PUBLISHED) == (partition.public_inputs,)
    assert partitions.partitions(PUBLISHED) == (partition,)
    assert partitions.public_inputs(PUBLISHED) == (partition.public_inputs,)


def test_the_instance_fits_the_circuit() -> None:
    (partition,) = c1_check.partitions(PUBLISHED)
    instance: PorepInstance = partition.instance
    assert [challenge.node for challenge in instance.challenges] == PUBLIC["challenges"]
    for name in ("replica_id", "comm_d", "comm_r"):
        assert getattr(instance, name).to_bytes(32, "little").hex() == PUBLIC[name]
    for challenge in instance.challenges:
        columns = (*challenge.drg_parents, *challenge.expander_parents, challenge.column)
        assert {column.path.root for column in columns} == {instance.comm_c}
        assert challenge.replica.root == instance.comm_r_last
        assert challenge.data.root == instance.comm_d


def test_a_node_that_many_paths_pass_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []

    def digest(inputs: tuple[int, ...]) -> int:
        hashed.append(tuple(inputs))
        return poseidon.poseidon(len(inputs)).digest(inputs)

    monkeypatch.setattr(poseidon, "digest", digest)
    c1_check.partitions(PUBLISHED)
    assert len(hashed) == len(set(hashed)) < 2 * (15 + 16 * 2)  # columns, and levels of paths


ZEROS = [0] * 32
COLUMN_PLACE = f"{CHALLENGES}[1].replica_column_proofs"
LABELING = f"{CHALLENGES}[1].labeling_proofs"
ONE = ("vanilla_proofs", "StackedDrg2KiBV1", 0, 1)
DATA, REPLICA, COLUMNS = "comm_d_proofs", "comm_r_last_proof", "replica_column_proofs"
SINGLE = ("data", "Single")
PATH = (*SINGLE, "path", "path")
FALSE: list[tuple[tuple[str | int, ...], Any, type[CuzkError], str]] = [
    (("replica_id",), ZEROS, ReplicaIdMismatch, f"{PLACE}.replica_id"),
    (("ticket",), ZEROS, ReplicaIdMismatch, f"{PLACE}.replica_id"),
    (("comm_d",), ZEROS, ReplicaIdMismatch, f"{PLACE}.replica_id"),
    (("comm_r",), ZEROS, CommRMismatch, f"{PLACE}.comm_r"),
    (("comm_r",), [255] * 32, NonCanonicalElement, f"{PLACE}.comm_r"),
    (("comm_d",), [255] * 32, NonCanonicalElement, f"{PLACE}.comm_d"),
    (("seed",), ZEROS, WrongChallenge, f"{CHALLENGES}[0].comm_d_proofs"),
    ((*ONE[:3], 0, REPLICA, *SINGLE, "root"), ZEROS, CommRMismatch, f"{PLACE}.comm_r"),
    ((*ONE[:3], 0, COLUMNS, "c_x", "inclusion_proof", *SINGLE, "root"), ZEROS, CommRMismatch, f"{PLACE}.comm_r"),
    ((*ONE, DATA, *SINGLE, "root"), ZEROS, MerklePathMismatch, f"{CHALLENGES}[1].{DATA}.root"),
    ((*ONE, DATA, *SINGLE, "leaf"), ZEROS, MerklePathMismatch, f"{CHALLENGES}[1].{DATA}"),
    ((*ONE, DATA, *PATH, 2, "hashes", 0), ZEROS, MerklePathMismatch, f"{CHALLENGES}[1].{DATA}"),
    ((*ONE, DATA, *PATH, 2, "index"), 0, WrongChallenge, f"{CHALLENGES}[1].{DATA}"),
    ((*ONE, COLUMNS, "c_x", "column", "index"), 13, WrongChallenge, f"{COLUMN_PLACE}.c_x.column.index"),
    ((*ONE, COLUMNS, "c_x", "column", "rows", 0), ZEROS, ColumnMismatch, f"{COLUMN_PLACE}.c_x.column.rows"),
    (
        (*ONE, COLUMNS, "drg_parents", 5, "column", "rows", 1),
        ZEROS,
        ColumnMismatch,
        f"{COLUMN_PLACE}.drg_parents[5].column.rows",
    ),
    (
        (*ONE, COLUMNS, "drg_parents", 0, "column", "index"),
        12,
        WrongParent,
        f"{COLUMN_PLACE}.drg_parents[0].column.index",
    ),
    (
        (*ONE, COLUMNS, "exp_parents", 7, "column", "index"),
        0,
        WrongParent,
        f"{COLUMN_PLACE}.exp_parents[7].column.index",
    ),
    (
        (*ONE, COLUMNS, "exp_parents", 2, "inclusion_proof", *PATH, 1, "index"),
        0,
        WrongChallenge,
        f"{COLUMN_PLACE}.exp_parents[2].inclusion_proof",
    ),
    (
        (*ONE, COLUMNS, "exp_parents", 2, "inclusion_proof", *PATH, 1, "hashes", 6),
        ZEROS,
        MerklePathMismatch,
        f"{COLUMN_PLACE}.exp_parents[2].inclusion_proof",
    ),
    (
        (*ONE, COLUMNS, "exp_parents", 2, "inclusion_proof", *SINGLE, "root"),
        ZEROS,
        MerklePathMismatch,
        f"{COLUMN_PLACE}.exp_parents[2].inclusion_proof.root",
    ),
    ((*ONE, "labeling_proofs", 0, "node"), 13, LabelMismatch, f"{LABELING}[0]"),
    ((*ONE, "labeling_proofs", 1, "layer_index"), 1, LabelMismatch, f"{LABELING}[1]"),
    (
        (*ONE, "labeling_proofs", 0, "parents", 36),
        ZEROS,
        LabelMismatch,
        f"{LABELING}[0].parents[36]",
    ),
    (
        (*ONE, "labeling_proofs", 1, "parents", 6),
        ZEROS,
        LabelMismatch,
        f"{LABELING}[1].parents[6]",
    ),
    ((*ONE, "encoding_proof", "parents", 0), ZEROS, LabelMismatch, f"{CHALLENGES}[1].encoding_proof.parents[0]"),
    ((*ONE, "encoding_proof", "layer_index"), 1, LabelMismatch, f"{CHALLENGES}[1].encoding_proof"),
    ((*ONE, "encoding_proof", "node"), 58, LabelMismatch, f"{CHALLENGES}[1].encoding_proof"),
    ((*ONE, REPLICA, *SINGLE, "leaf"), ZEROS, EncodingMismatch, f"{CHALLENGES}[1].{REPLICA}.leaf"),
    ((*ONE, REPLICA, *SINGLE, "root"), ZEROS, MerklePathMismatch, f"{CHALLENGES}[1].{REPLICA}.root"),
    ((*ONE, REPLICA, *PATH, 0, "hashes", 3), ZEROS, MerklePathMismatch, f"{CHALLENGES}[1].{REPLICA}"),
    ((*ONE, REPLICA, *PATH, 0, "index"), 7, WrongChallenge, f"{CHALLENGES}[1].{REPLICA}"),
]


@pytest.mark.parametrize(("path", "value", "error", "field"), FALSE)
def test_a_false_value_is_named(path: tuple[str | int, ...], value: Any, error: type[CuzkError], field: str) -> None:
    with pytest.raises(error) as caught:
        c1_check.partitions(spoiled_c1(put(*path, value=value)))
    assert type(caught.value) is error
    assert caught.value.field == field


def test_another_miner_or_sector_is_another_replica() -> None:
    with pytest.raises(ReplicaIdMismatch):
        c1_check.partitions(changed(POREP, miner_id=1001))
    other = wrapped(c1_document(), SectorNum=2)
    with pytest.raises(ReplicaIdMismatch):
        c1_check.partitions(changed(POREP, sector_number=2, vanilla_proof=other))


def test_a_request_that_names_no_sector_takes_that_of_the_wrapper() -> None:
    assert c1_check.public_inputs(changed(POREP, sector_number=None)) == c1_check.public_inputs(PUBLISHED)


def test_another_seal_proof_is_another_graph_and_replica() -> None:
    """Both the request and the C1 say V1: the sector was sealed under V1_1."""
    document = c1_document()
    document["registered_proof"] = "StackedDrg2KiBV1"
    with pytest.raises(ReplicaIdMismatch):
        c1_check.partitions(changed(POREP, registered_proof=0, vanilla_proof=wrapped(document)))


@pytest.mark.parametrize("seed", range(40))
def test_no_byte_may_differ(seed: int) -> None:
    """One random byte anywhere in the document is changed by one bit."""
    random = Random(seed)
    where: list[str] = []

    def spoil(document: Any) -> None:
        value: Any = document
        while True:
            keys = [k for k in (value if isinstance(value, dict) else range(len(value))) if k != "_h"]
            key = random.choice(keys)
            where.append(str(key))
            if isinstance(value[key], int):
                value[key] ^= 1
                return
            if isinstance(value[key], str):
                value[key] += "x"
                return
            value = value[key]

    with pytest.raises(InvalidInput) as caught:
        c1_check.partitions(spoiled_c1(spoil))
    assert caught.value.field, where
    assert caught.value.field.startswith("vanilla_proof"), where
