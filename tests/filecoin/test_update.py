"""SnapDeals: challenges, randomness, public inputs against the Rust stack; every false partition proof is refused."""

from __future__ import annotations

import struct

import pytest

from prover.errors import CuzkError, InvalidInput
from prover.filecoin import partitions, update
from prover.filecoin.errors import (
    ApexMismatch,
    CommRMismatch,
    EncodingMismatch,
    MalformedVanillaProof,
    MerklePathMismatch,
    NonCanonicalElement,
    TrailingBytes,
    TruncatedVanillaProof,
    WrongChallenge,
)
from prover.filecoin.partition_proof import partition_proof_size, read_partition_proof, write_partition_proof
from prover.filecoin.request import UpdateRequest
from prover.filecoin.shapes import update_shape

from .samples import SNAP, changed, parsed, patched, vectors

PUBLIC = vectors("2k/public.json")["snap"]
SHAPE = update_shape(2048)
PUBLISHED = parsed(SNAP)
(PROOF,) = PUBLISHED.vanilla_proofs
#: comm_r_new of the crate's own tests: the first Fr of its generator
COMM_R_NEW = 0x6C0740D6EDB22EB13054F4587D6D2DCBC688F796C303C7044F60429C4BBE1C10
POSEIDON_PATH, DATA_PATH = 4 + 64 + 8 + 2 * (16 + 7 * 32), 4 + 64 + 8 + 6 * (16 + 32)
APEX = 32 + 8
FIRST = APEX + 8 * 32 + 8
NODE = 2 * POSEIDON_PATH + DATA_PATH


def integer(name: str) -> int:
    return int.from_bytes(bytes.fromhex(PUBLIC[name]), "little")


@pytest.mark.parametrize(
    ("size", "partition", "first"),
    [
        (2 << 10, 0, (53, 51, 56, 3, 0)),
        (16 << 10, 1, (286, 308, 493, 510, 508)),
        (8 << 20, 0, (36085, 32783, 44060, 10950, 3731)),
        (8 << 20, 1, (78878, 130797, 112892, 93994, 78379)),
        (512 << 20, 15, (16388544, 15794686, 16637142, 16319148, 16328348)),
        (32 << 30, 14, (990420169, 955146989, 968005601, 976863263, 944650706)),
    ],
)
def test_challenges_are_those_of_the_crate(size: int, partition: int, first: tuple[int, ...]) -> None:
    shape = update_shape(size)
    found = update.challenges(shape, COMM_R_NEW, partition)
    assert found[:5] == first
    assert len(found) == shape.challenges
    assert {node >> shape.challenge_bits for node in found} == {partition}


def test_the_published_sector() -> None:
    assert [list(update.challenges(SHAPE, PUBLISHED.comm_r_new, 0))] == PUBLIC["challenges"]
    phi = update.phi(PUBLISHED.comm_d_new, PUBLISHED.comm_r_old)
    assert f"{phi:064x}" == PUBLIC["phi"]
    assert [f"{update.rho(phi, SHAPE.high(n)):064x}" for n in PUBLIC["challenges"][0]] == PUBLIC["rhos_of_challenges"]
    for name in ("comm_r_old", "comm_d_new", "comm_r_new"):
        assert getattr(PUBLISHED, name) == integer(name)


def test_the_published_proof_is_read_and_written() -> None:
    proof = read_partition_proof(PROOF, SHAPE, "proof")
    assert write_partition_proof(proof, SHAPE) == PROOF
    assert partition_proof_size(SHAPE) == len(PROOF)
    assert proof.comm_c == integer("comm_c")


def test_public_inputs_and_instance() -> None:
    (partition,) = update.partitions(PUBLISHED)
    inputs = (PUBLIC["h_select"], integer("comm_r_old"), integer("comm_d_new"), integer("comm_r_new"))
    assert partition.public_inputs == inputs
    assert update.public_inputs(PUBLISHED) == partitions.public_inputs(PUBLISHED) == (inputs,)
    assert partitions.partitions(PUBLISHED) == (partition,)
    instance = partition.instance
    assert instance.comm_r_last_old == integer("comm_r_last_old")
    assert instance.comm_r_last_new == integer("comm_r_last_new")
    assert [challenge.node for challenge in instance.challenges] == PUBLIC["challenges"][0]
    assert (len(instance.apex_leaves), instance.partition_path) == (8, ())


def spoiled(at: int, new: bytes) -> UpdateRequest:
    return changed(SNAP, vanilla_proofs=[patched(PROOF, at, new)])


ONES = b"\1" * 8
PLACE = "vanilla_proofs[0]"
THIRD = FIRST + 3 * NODE
FALSE: list[tuple[int, bytes, type[CuzkError], str]] = [
    (0, ONES, CommRMismatch, f"{PLACE}.comm_c"),
    (32, struct.pack("<Q", 9), MalformedVanillaProof, f"{PLACE}.apex_leafs"),
    (32, struct.pack("<Q", 1 << 60), MalformedVanillaProof, f"{PLACE}.apex_leafs"),
    (APEX + 32, b"\xff" * 32, NonCanonicalElement, f"{PLACE}.apex_leafs[1]"),
    (APEX + 32, ONES, ApexMismatch, f"{PLACE}.apex_leafs[1]"),
    (APEX + 7 * 32, ONES, ApexMismatch, f"{PLACE}.apex_leafs[7]"),
    (FIRST + 4, ONES, CommRMismatch, f"{PLACE}.comm_c"),
    (FIRST + POSEIDON_PATH + DATA_PATH + 4, ONES, CommRMismatch, f"{PLACE}.comm_c"),
    (THIRD, struct.pack("<I", 1), MalformedVanillaProof, f"{PLACE}.challenge_proofs[3].proof_r_old"),
    (THIRD + 4, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_r_old.root"),
    (THIRD + 36, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_r_old"),
    (THIRD + 84, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_r_old"),
    (THIRD + 84 + 224, struct.pack("<Q", 0), WrongChallenge, f"{PLACE}.challenge_proofs[3].proof_r_old"),
    (THIRD + POSEIDON_PATH + 4, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_d_new.root"),
    (THIRD + POSEIDON_PATH + 36, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_d_new"),
    (THIRD + POSEIDON_PATH + DATA_PATH + 4, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_r_new.root"),
    (THIRD + POSEIDON_PATH + DATA_PATH + 36, ONES, MerklePathMismatch, f"{PLACE}.challenge_proofs[3].proof_r_new"),
]


@pytest.mark.parametrize(("at", "new", "error", "field"), FALSE)
def test_a_false_value_is_named(at: int, new: bytes, error: type[CuzkError], field: str) -> None:
    with pytest.raises(error) as caught:
        update.partitions(spoiled(at, new))
    assert type(caught.value) is error
    assert caught.value.field == field


def test_a_replica_that_does_not_encode_the_data_is_refused() -> None:
    """The new replica's paths are those of the old one: they lead to a root, but not to what the data encode to."""
    proof = read_partition_proof(PROOF, SHAPE, "proof")
    nodes = tuple(type(node)(node.old, node.data, node.old) for node in proof.nodes)
    data = write_partition_proof(type(proof)(proof.comm_c, proof.apex_leaves, nodes), SHAPE)
    found = changed(SNAP, vanilla_proofs=[data], comm_r_new=PUBLISHED.comm_r_old.to_bytes(32, "little"))
    with pytest.raises((EncodingMismatch, WrongChallenge)):
        update.partitions(found)


@pytest.mark.parametrize("field", ["comm_r_old", "comm_r_new", "comm_d_new"])
def test_another_commitment_in_the_request_is_refused(field: str) -> None:
    with pytest.raises((CommRMismatch, MerklePathMismatch)):
        update.partitions(changed(SNAP, **{field: bytes(32)}))


@pytest.mark.parametrize(
    ("size", "error"),
    [(0, TruncatedVanillaProof), (len(PROOF) - 1, TruncatedVanillaProof), (len(PROOF) + 1, TrailingBytes)],
)
def test_another_length_is_refused(size: int, error: type[CuzkError]) -> None:
    with pytest.raises(error):
        read_partition_proof((PROOF + b"\0")[:size], SHAPE, "proof")
    with pytest.raises(error, match=rf"vanilla_proofs\[0\]: {size} bytes given, {len(PROOF)} prescribed"):
        changed(SNAP, vanilla_proofs=[(PROOF + b"\0")[:size]])


@pytest.mark.parametrize("seed", range(40))
def test_no_bit_may_differ(seed: int) -> None:
    at = seed * 7919 % len(PROOF)
    with pytest.raises(InvalidInput) as caught:
        update.partitions(spoiled(at, bytes([PROOF[at] ^ 1 << seed % 8])))
    assert caught.value.field is not None
    assert caught.value.field.startswith(PLACE)


def test_the_high_bits_of_a_node() -> None:
    shape = update_shape(8 << 20)  # 18 bits, of which 10 are high
    assert [shape.high(node) for node in (0, 255, 256, (1 << 18) - 1)] == [0, 0, 1, 1023]
