"""SHA-256: digests and intermediate bits of any messages are hashlib's, and satisfy the recorded rows."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.algebra.fields import FR
from prover.circuits.boolean import Boolean, allocate_bit, constant
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.digest import Digest, elements_digest
from prover.circuits.evaluation import Evaluator
from prover.circuits.matrices import matrices_of
from prover.circuits.sha256 import sha256 as sha256_gadget
from prover.circuits.sha256_trace import message_trace
from prover.circuits.values import Values, sha256_digest
from tests.circuits.instances import canon
from tests.circuits.vectors import GADGETS, read_json


def bits_of(message: bytes) -> np.ndarray:
    return np.unpackbits(np.frombuffer(message, np.uint8))


@dataclass(frozen=True)
class Message:
    """The bits of a message that are variables, allocated here, then its digest."""

    message: bytes
    pattern: str

    def record(self) -> tuple[ConstraintSystem, tuple[Variable, ...]]:
        cs = ConstraintSystem()
        bits = [Boolean(allocate_bit(cs)) if letter == "v" else constant(int(letter)) for letter in self.pattern]
        return cs, sha256_gadget(cs, bits)

    def aux(self) -> np.ndarray:
        variables = [letter == "v" for letter in self.pattern]
        return np.concatenate([bits_of(self.message)[variables], message_trace(self.pattern).bits([self.message])[0]])


def message_and_pattern(size: int, seed: int, share: float) -> Message:
    """Random bits, of which a share are variables; at least one."""
    rng = np.random.default_rng(seed)
    message = rng.bytes(size)
    variables = rng.random(8 * size) < share
    variables[rng.integers(8 * size)] = True
    letters = ["v" if v else str(bit) for v, bit in zip(variables, bits_of(message), strict=True)]
    return Message(message, "".join(letters))


@settings(max_examples=3, deadline=None)
@given(st.integers(1, 60), st.integers(0, 1 << 30), st.sampled_from([0.01, 0.5, 1.0]))
def test_any_message_is_satisfied_by_its_trace_and_hashes_as_hashlib_says(size: int, seed: int, share: float) -> None:
    message = message_and_pattern(size, seed, share)
    cs, digest = message.record()
    aux = message.aux()
    assert len(aux) == cs.num_aux
    z = FR.bytes_of([1, *aux.tolist()])
    assert len(Evaluator(matrices_of(cs)).evaluate(z).wrong) == 0
    assert np.packbits(aux[list(digest)]).tobytes() == sha256(message.message).digest()


def test_many_messages_at_once_equal_each_alone() -> None:
    rng = np.random.default_rng(2)
    messages = [rng.bytes(100) for _ in range(7)]
    trace = message_trace("v" * 800)
    together = trace.bits(messages)
    for message, bits in zip(messages, together, strict=True):
        np.testing.assert_array_equal(trace.bits([message])[0], bits)


def assert_equals_vector(values: Values, name: str) -> None:
    vector = read_json(GADGETS / f"{name}.json")
    published = Digest(vector["aux_sha256"], tuple(vector["aux_checkpoints"]))
    assert elements_digest(values.witness().aux).first_difference(published) is None


def test_witness_of_a_pair() -> None:
    left, right = canon("hash2 a"), canon("hash2 b")
    values = Values()
    values.add(left, right)
    digest = values.sha256_pair(left, right)
    assert_equals_vector(values, "sha256_hash2")
    assert f"{digest:064x}" == read_json(GADGETS / "sha256_hash2.json")["output"]


def test_witness_of_a_label() -> None:
    """37 parents and the id as bits, layer and node as constants."""
    vector = read_json(GADGETS / "create_label_37.json")
    parents = b"".join(canon(f"parent {k % 14}").to_bytes(32, "little") for k in range(37))
    replica_id = canon("replica_id").to_bytes(32, "little")
    head = (vector["layer"].to_bytes(4, "big") + vector["node"].to_bytes(8, "big")).ljust(32, b"\0")
    pattern = "v" * 256 + "".join(map(str, bits_of(head))) + "v" * 256 * 37
    values = Values()
    for byte in parents + replica_id:
        values.add_bits(int(f"{byte:08b}"[::-1], 2), 8)
    digest = values.sha256_number(pattern, replica_id + head + parents)
    assert_equals_vector(values, "create_label_37")
    assert f"{digest:064x}" == vector["output"]


def test_a_digest_is_a_number_below_2_to_254() -> None:
    message = next(bytes([i]) for i in range(256) if sha256(bytes([i])).digest()[31] >= 0xC0)
    assert sha256_digest(message) == int.from_bytes(sha256(message).digest(), "little") % (1 << 254)


@pytest.mark.parametrize("count", [7, 12])
def test_a_message_is_whole_bytes(count: int) -> None:
    cs = ConstraintSystem()
    with pytest.raises(ValueError, match="not whole bytes"):
        sha256_gadget(cs, [Boolean(allocate_bit(cs)) for _ in range(count)])


def test_a_constant_message_and_a_complement_are_refused() -> None:
    cs = ConstraintSystem()
    with pytest.raises(ValueError, match="needs no circuit"):
        sha256_gadget(cs, [constant(1)] * 8)
    with pytest.raises(ValueError, match="no complements"):
        sha256_gadget(cs, [Boolean(allocate_bit(cs), negated=True)] * 8)
