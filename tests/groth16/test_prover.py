"""Proofs are the Rust stack's byte for byte, and the textbook's for small circuits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from prover.algebra import kernels
from prover.algebra.constants import R
from prover.groth16.errors import KeyMismatch, ScalarsInvalid
from prover.groth16.keys import Parameters
from prover.groth16.prover import DEVICE_STAGES, TAIL_STAGES, Pending, ProvingKey, check_fits, start
from prover.groth16.setup import Scalars, setup
from prover.groth16.verifier import verify
from prover.reference import groth16 as textbook
from tests.groth16 import toy
from tests.groth16.arkworks import by_arkworks
from tests.groth16.vectors import (
    DATA,
    assignment,
    canon,
    deadline_assignments,
    parameters,
    published_proofs,
    recorded,
)

SECRET = textbook.Secrets(31, 32, 33, 34, 35)
SCALARS = Scalars(31, 32, 33, 34, 35)


def proving_key(kind: str) -> ProvingKey:
    """With one table a base: made at once, slower to use."""
    return ProvingKey(parameters(kind), recorded(kind))


@pytest.fixture(scope="module")
def tiny() -> ProvingKey:
    return proving_key("tiny")


@pytest.fixture(scope="module")
def window() -> ProvingKey:
    return proving_key("window")


def prove(key: ProvingKey, wires: toy.Wired, r: int, s: int) -> bytes:
    return start(key, wires, r, s).finish()


def encoded(proof: textbook.Proof) -> bytes:
    """A proof in the exponent as bytes, by the other library."""
    a, c = (bytes((G1Point() * Scalar(k)).to_compressed_bytes()) for k in (proof.a, proof.c))
    return a + bytes((G2Point() * Scalar(proof.b)).to_compressed_bytes()) + c


@pytest.mark.parametrize("rows", [1, 4, 13])
def test_small_circuits_give_the_textbooks_proof(rows: int) -> None:
    circuit, wires = toy.chain(rows, seed=100 + rows)
    made = setup(toy.matrices(circuit), SCALARS, of_generator=by_arkworks)
    key = ProvingKey(made, toy.matrices(circuit))
    for r, s in ((0, 0), (1, R - 1), (canon("r"), canon("s"))):
        expected = textbook.prove(circuit, SECRET, wires, r, s)
        assert textbook.verify(circuit, SECRET, wires[: circuit.num_inputs], expected)
        proof = prove(key, toy.wired(circuit, wires), r, s)
        assert proof == encoded(expected)
        assert verify(made.vk, wires[1 : circuit.num_inputs], proof)


def test_the_textbook_refuses_wires_that_do_not_satisfy_and_proofs_that_are_changed() -> None:
    circuit, wires = toy.chain(4, seed=9)
    with pytest.raises(ValueError, match="do not satisfy"):
        textbook.prove(circuit, SECRET, [*wires[:-1], wires[-1] + 1], 1, 1)
    good = textbook.prove(circuit, SECRET, wires, 1, 1)
    inputs = wires[: circuit.num_inputs]
    for changed in (textbook.Proof(good.a + 1, good.b, good.c), textbook.Proof(good.a, good.b, good.c + 1)):
        assert not textbook.verify(circuit, SECRET, inputs, changed)


def test_wires_that_do_not_satisfy_give_a_proof_that_is_refused() -> None:
    circuit, wires = toy.chain(4, seed=9)
    made = setup(toy.matrices(circuit), SCALARS, of_generator=by_arkworks)
    wrong = [*wires[:-1], (wires[-1] + 1) % R]
    proof = prove(ProvingKey(made, toy.matrices(circuit)), toy.wired(circuit, wrong), 1, 1)
    assert not verify(made.vk, wires[1 : circuit.num_inputs], proof)


def test_tiny_is_the_rust_stacks_with_and_without_blinding(tiny: ProvingKey) -> None:
    wires = assignment("tiny")
    _, published = published_proofs("tiny")
    ours = [prove(tiny, wires, canon("r"), canon("s")), prove(tiny, wires, 0, 0)]
    assert ours == published


@pytest.mark.parametrize("tables", [2, 5])
def test_tables_change_the_time_and_not_the_proof(tables: int) -> None:
    made = parameters("tiny")
    key = ProvingKey(made, recorded("tiny"))
    key.tabulate(tables * key.nbytes)
    assert prove(key, assignment("tiny"), canon("r"), canon("s")) == published_proofs("tiny")[1][0]


def test_tables_are_made_while_proofs_go_on() -> None:
    key, wires = proving_key("tiny"), assignment("tiny")
    before, told = key.nbytes, list[float]()
    with ThreadPoolExecutor(1) as pool:
        tables = pool.submit(key.tabulate, 3 * before, told.append)
        proofs = [prove(key, wires, canon("r"), canon("s"))]
        while not tables.done():
            proofs.append(prove(key, wires, canon("r"), canon("s")))
        tables.result()
    assert set(proofs) == {published_proofs("tiny")[1][0]}
    assert told[0] == 0 and told[-1] == 1 and told == sorted(told) and len(set(told)) > 2
    assert before < key.nbytes <= 3 * before


def test_window_is_the_rust_stacks_with_and_without_blinding(window: ProvingKey) -> None:
    wires = assignment("window")
    _, published = published_proofs("window")
    assert [prove(window, wires, canon("r"), canon("s")), prove(window, wires, 0, 0)] == published


@pytest.fixture(scope="module")
def deadline() -> list[toy.Wired]:
    return list(deadline_assignments())


#: the first, one between and the last, which has its last sector repeated; the acceptance runs take the others too
QUICK = {0, 6, 12}


@pytest.mark.parametrize(
    "number",
    [number if number in QUICK else pytest.param(number, marks=pytest.mark.acceptance) for number in range(13)],
)
def test_each_partition_of_a_deadline_is_the_rust_stacks(
    number: int, window: ProvingKey, deadline: list[toy.Wired]
) -> None:
    published = json.loads((DATA / "deadline" / "deadline.json").read_text())["partitions"]
    assert len(deadline) == len(published) == 13
    assert prove(window, deadline[number], canon("r"), canon("s")).hex() == published[number]["proof"]


@pytest.mark.acceptance
def test_winning_is_the_rust_stacks_with_and_without_blinding() -> None:
    key, wires = proving_key("winning"), assignment("winning")
    _, published = published_proofs("winning")
    assert [prove(key, wires, canon("r"), canon("s")), prove(key, wires, 0, 0)] == published


def test_fresh_blinding_gives_another_proof_each_time_and_all_verify(tiny: ProvingKey) -> None:
    wires = assignment("tiny")
    inputs, _ = published_proofs("tiny")
    proofs = [start(tiny, wires).finish() for _ in range(3)]
    assert len({proof[:48] for proof in proofs}) == len({proof[48:144] for proof in proofs}) == 3
    assert all(verify(parameters("tiny").vk, inputs, proof) for proof in proofs)


@pytest.mark.parametrize(("r", "s", "field"), [(R, 1, "r"), (1, -1, "s")])
def test_blinding_out_of_range_is_refused(r: int, s: int, field: str, tiny: ProvingKey) -> None:
    with pytest.raises(ScalarsInvalid) as caught:
        start(tiny, assignment("tiny"), r, s)
    assert caught.value.field == field


def test_a_pending_proof_shows_neither_r_nor_s(tiny: ProvingKey) -> None:
    pending = start(tiny, assignment("tiny"), 123456789, 987654321)
    assert isinstance(pending, Pending)
    assert not {"123456789", "987654321", "75bcd15"} & set(repr(pending).split())
    assert "123456789" not in repr(pending) + str(pending)


def test_the_tail_may_run_beside_the_next_device_phase(tiny: ProvingKey) -> None:
    """Several proofs at a time, on two devices, finished elsewhere: each is right."""
    wires, (_, published) = assignment("tiny"), published_proofs("tiny")
    other = ProvingKey(parameters("tiny"), recorded("tiny"), jax.devices()[1])
    with ThreadPoolExecutor(4) as pool:
        pending = [pool.submit(start, key, wires, canon("r"), canon("s")) for key in (tiny, other, tiny, other)]
        proofs = list(pool.map(lambda future: future.result().finish(), pending))
    assert proofs == [published[0]] * 4


def test_after_the_warm_up_a_proof_compiles_nothing() -> None:
    key = proving_key("tiny")
    key.warm_up()
    before = kernels.compiled_programs()
    assert before > 0
    prove(key, assignment("tiny"), 5, 6)
    assert kernels.compiled_programs() == before


def test_each_stage_is_timed_once_and_the_tail_comes_last(tiny: ProvingKey) -> None:
    seen: dict[str, tuple[int, int]] = {}
    pending = start(tiny, assignment("tiny"), timer=lambda stage, began, ended: seen.update({stage: (began, ended)}))
    assert set(seen) == set(DEVICE_STAGES)
    pending.finish()
    assert set(seen) == {*DEVICE_STAGES, *TAIL_STAGES}
    assert all(began <= ended for began, ended in seen.values())
    assert seen["transforms"][1] <= seen["h"][0]
    assert max(seen[stage][1] for stage in DEVICE_STAGES) <= seen["b_g2"][0]


@pytest.mark.parametrize("section", ["ic", "h", "l", "a", "b_g1", "b_g2"])
def test_a_key_of_another_circuit_is_refused_and_the_section_named(section: str) -> None:
    made = parameters("tiny")
    parts = {name: points for name, _, points in made.sections()}
    vk = made.vk
    if section == "ic":
        heads = {name: getattr(vk, name) for name in vk.__dataclass_fields__}
        vk = type(vk)(**{**heads, "ic": vk.ic[:-1]})
    else:
        parts[section] = parts[section][:-1]
    with pytest.raises(KeyMismatch) as caught:
        check_fits(Parameters(vk, **parts), recorded("tiny"))
    assert caught.value.field == section


def test_the_window_key_does_not_fit_tiny() -> None:
    with pytest.raises(KeyMismatch, match="needs"):
        ProvingKey(parameters("tiny"), recorded("window"))


def test_an_assignment_of_another_circuit_is_refused(tiny: ProvingKey) -> None:
    circuit, wires = toy.chain(4, seed=1)
    with pytest.raises(KeyMismatch) as caught:
        start(tiny, toy.wired(circuit, wires))
    assert caught.value.field == "assignment"


def test_the_sums_of_zero_wires_are_infinity(tiny: ProvingKey) -> None:
    count = len(parameters("tiny").h)
    assert tiny.msm("h", np.zeros((count, 32), np.uint8)) == bytes([0x40]) + bytes(95)
