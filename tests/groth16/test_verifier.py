"""Proofs of the Rust stack verify; whatever is changed in them, in the inputs or in the key is refused."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from py_arkworks_bls12381 import G1Point, Scalar

from prover.groth16.errors import CuzkError, KeyFileDamaged, ProofMalformed, PublicInputsInvalid
from prover.groth16.keys import VerifyingKey
from prover.groth16.verifier import PreparedKey, R, verify
from tests.groth16.vectors import DATA, KINDS, published_proofs, verifying_key


@pytest.fixture(scope="module")
def prepared() -> dict[str, PreparedKey]:
    return {kind: PreparedKey(verifying_key(kind)) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_published_proofs_verify(kind: str, prepared: dict[str, PreparedKey]) -> None:
    inputs, proofs = published_proofs(kind)
    assert [prepared[kind].verify(inputs, proof) for proof in proofs] == [True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_each_changed_input_is_refused(kind: str, prepared: dict[str, PreparedKey]) -> None:
    inputs, (proof, _) = published_proofs(kind)
    for i in range(len(inputs)):
        changed = [*inputs]
        changed[i] = (changed[i] + 1) % R
        assert not prepared[kind].verify(changed, proof), f"input {i}"


def test_each_partition_of_a_deadline_verifies_and_the_wrong_one_is_named(prepared: dict[str, PreparedKey]) -> None:
    partitions = json.loads((DATA / "deadline" / "deadline.json").read_text())["partitions"]
    inputs = [[int(x, 16) for x in part["public_inputs"]] for part in partitions]
    proofs = [bytes.fromhex(part["proof"]) for part in partitions]
    assert len(proofs) == 13
    assert prepared["window"].verify_partitions(inputs, b"".join(proofs)) == []
    proofs[3], proofs[7] = proofs[7], proofs[3]
    assert prepared["window"].verify_partitions(inputs, b"".join(proofs)) == [3, 7]
    with pytest.raises(ProofMalformed, match="12 proofs for 13 partitions"):
        prepared["window"].verify_partitions(inputs, b"".join(proofs[:12]))
    with pytest.raises(ProofMalformed, match="not a multiple of 192"):
        prepared["window"].verify_partitions(inputs, b"".join(proofs)[:-1])


def accepts(key: PreparedKey, inputs: list[int], proof: bytes) -> bool:
    try:
        return key.verify(inputs, proof)
    except ProofMalformed:
        return False


def test_every_single_bit_of_a_proof_matters(prepared: dict[str, PreparedKey]) -> None:
    inputs, (proof, _) = published_proofs("tiny")
    for bit in range(8 * len(proof)):
        changed = bytearray(proof)
        changed[bit // 8] ^= 1 << bit % 8
        assert not accepts(prepared["tiny"], inputs, bytes(changed)), f"bit {bit}"


def test_a_proof_of_other_points_is_refused(prepared: dict[str, PreparedKey]) -> None:
    """Well-formed but wrong: A, B and C swapped between two proofs of the same statement."""
    inputs, (first, second) = published_proofs("tiny")
    for start, end in ((0, 48), (48, 144), (144, 192)):
        assert not prepared["tiny"].verify(inputs, first[:start] + second[start:end] + first[end:])


def outside_subgroup() -> bytes:
    """A compressed point of the curve G1 that is not in the subgroup of order r."""
    for x in range(1, 100):
        data = bytes([0x80]) + x.to_bytes(47, "big")
        try:
            point = G1Point.from_compressed_bytes_unchecked(data)
        except ValueError:
            continue
        if not point.is_in_subgroup():
            return data
    raise AssertionError("none found")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda p: p[:-1], "proof"),
        (lambda p: p + b"\0", "proof"),
        (lambda p: bytes([0xC0]) + bytes(47) + p[48:], "proof.A"),
        (lambda p: p[:48] + bytes([0xC0]) + bytes(95) + p[144:], "proof.B"),
        (lambda p: p[:144] + bytes([0xC0]) + bytes(47), "proof.C"),
        (lambda p: bytes([p[0] | 0x40]) + p[1:], "proof.A"),
        (lambda p: bytes([p[0] & 0x7F]) + p[1:], "proof.A"),
        (lambda p: bytes([0x9F]) + b"\xff" * 47 + p[48:], "proof.A"),
        (lambda p: p[:144] + outside_subgroup(), "proof.C"),
    ],
)
def test_malformed_proofs_are_refused_by_name(change, field: str, prepared: dict[str, PreparedKey]) -> None:  # type: ignore[no-untyped-def]
    inputs, (proof, _) = published_proofs("tiny")
    with pytest.raises(ProofMalformed) as caught:
        prepared["tiny"].verify(inputs, change(proof))
    assert caught.value.field == field
    assert caught.value.code == "proof_malformed"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda x: x[:-1], "public_inputs"),
        (lambda x: [1, *x], "public_inputs"),
        (lambda x: [x[0] + R, *x[1:]], "public_inputs[0]"),
        (lambda x: [*x[:-1], -1], "public_inputs[1]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_by_name(change, field: str, prepared: dict[str, PreparedKey]) -> None:  # type: ignore[no-untyped-def]
    inputs, (proof, _) = published_proofs("tiny")
    with pytest.raises(PublicInputsInvalid) as caught:
        prepared["tiny"].verify(change(inputs), proof)
    assert caught.value.field == field


def test_changed_keys_never_accept() -> None:
    """A bit flipped anywhere leaves a point off the curve, or a count that the size contradicts: the error names it."""
    data = (DATA / "2k" / "tiny.vk").read_bytes()
    choose = random.Random(5)
    for _ in range(300):
        bit = choose.randrange(8 * len(data))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(KeyFileDamaged) as caught:
            PreparedKey(VerifyingKey.parse(bytes(changed)))
        assert caught.value.field


@pytest.mark.parametrize("part", ["alpha_g1", "beta_g2", "gamma_g2", "delta_g2", "ic"])
def test_a_key_with_another_point_refuses_the_proof(part: str) -> None:
    inputs, (proof, _) = published_proofs("tiny")
    vk = verifying_key("tiny")
    other = {name: getattr(vk, name) for name in vk.__dataclass_fields__}
    double = (G1Point.from_xy_bytes_be(vk.alpha_g1) * Scalar(2)).to_xy_bytes_be()
    swaps = {"alpha_g1": double, "beta_g2": vk.gamma_g2, "gamma_g2": vk.delta_g2, "delta_g2": vk.gamma_g2}
    other[part] = np.ascontiguousarray(vk.ic[::-1]) if part == "ic" else swaps[part]
    assert not verify(VerifyingKey(**other), inputs, proof)


def test_large_and_equal_and_zero_inputs_are_summed_as_written() -> None:
    """The shortcuts for equal and short inputs agree with the plain sum."""
    key = PreparedKey(verifying_key("winning"))
    choose = random.Random(7)
    values = [0, 1, 2**32 - 1, 2**32, R - 1, choose.randrange(R)]
    inputs = [choose.choice(values) for _ in range(len(key.ic) - 1)]
    plain = sum((p * Scalar(x) for p, x in zip(key.ic[1:], inputs, strict=True)), key.ic[0])
    assert key._accumulate(inputs) == plain


def test_errors_are_the_projects_own() -> None:
    assert all(issubclass(error, CuzkError) for error in (KeyFileDamaged, ProofMalformed, PublicInputsInvalid))
