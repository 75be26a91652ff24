"""Where programs run: synthesis and tail on the host's device, the device phase on its own and on no other."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from prover import jaxconf
from prover.algebra import kernels
from prover.algebra.kernels import Kernel
from prover.algebra.mesh import DeviceMesh
from prover.circuits.synthesis import Circuit
from prover.groth16.prover import ProvingKey, start
from tests.algebra.test_programs import events  # noqa: F401
from tests.circuits.instances import vector_instance
from tests.circuits.vectors import TINY
from tests.groth16.vectors import assignment, canon, parameters, published_proofs, recorded


class Record:
    """The devices of what every program gave, since the last look."""

    def __init__(self) -> None:
        self._seen: list[jax.Device] = []

    def add(self, outputs: Any) -> None:
        self._seen += [device for array in jax.tree.leaves(outputs) for device in array.devices()]

    def take(self) -> set[jax.Device]:
        found, self._seen = set(self._seen), []
        return found


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    kept, call = Record(), Kernel.__call__

    def watched(kernel: Kernel, *arguments: Any, **static: Any) -> Any:
        outputs = call(kernel, *arguments, **static)
        kept.add(outputs)
        return outputs

    monkeypatch.setattr(Kernel, "__call__", watched)
    return kept


def test_a_synthesis_runs_on_no_device_that_proves(record: Record) -> None:
    circuit = Circuit.load(TINY, None)
    circuit.compile()
    assert record.take() == {kernels.host()}
    for threads in (1, 2):
        circuit.synthesize(vector_instance("tiny"), threads)
        assert record.take() == {kernels.host()}
    assert kernels.host() not in jaxconf.devices("cpu")


@pytest.mark.parametrize("number", [0, 1])
def test_a_device_phase_runs_on_its_device_and_the_tail_on_the_hosts(number: int, record: Record) -> None:
    device = jaxconf.devices("cpu")[number]
    made, wires = parameters("tiny"), assignment("tiny")
    record.take()
    shared = ProvingKey(made, recorded("tiny"), threads=2)
    assert record.take() == {kernels.host()}
    pending = start(shared.on(device), wires, canon("r"), canon("s"))
    assert record.take() == {device}
    assert pending.finish() == published_proofs("tiny")[1][0]
    assert record.take() == {kernels.host()}


def assert_a_proof_compiles_nothing(key: ProvingKey, heard: int, events: list[str]) -> None:  # noqa: F811
    """After the warm-up. `heard` is a number of the caller's own, for a program that is compiled in any case."""
    wires = assignment("tiny")
    key.warm_up()
    jax.jit(lambda x: x - heard)(1)
    assert events, "the listener hears nothing: this test would pass whatever happened"
    events.clear()
    start(key, wires, 5, 6).finish()
    assert events == []


def test_after_the_warm_up_a_proof_on_a_second_device_compiles_nothing(events: list[str]) -> None:  # noqa: F811
    key = ProvingKey(parameters("tiny"), recorded("tiny")).on(jaxconf.devices("cpu")[1])
    assert_a_proof_compiles_nothing(key, 1, events)


@pytest.mark.parametrize("circuit", ["tiny", "window"])
def test_a_proof_of_several_devices_is_the_rust_stacks(circuit: str, record: Record) -> None:
    devices = jaxconf.devices("cpu")
    wires, (_, published) = assignment(circuit), published_proofs(circuit)
    key = ProvingKey(parameters(circuit), recorded(circuit)).on(DeviceMesh.of(devices))
    record.take()
    pending = start(key, wires, canon("r"), canon("s"))
    assert record.take() == set(devices) and len(devices) == 2
    assert pending.finish() == published[0]
    assert record.take() == {kernels.host()}
    assert start(key, wires, 0, 0).finish() == published[1]


def test_after_the_warm_up_a_proof_of_several_devices_compiles_nothing(events: list[str]) -> None:  # noqa: F811
    key = ProvingKey(parameters("tiny"), recorded("tiny")).on(DeviceMesh.of(jaxconf.devices("cpu")))
    assert_a_proof_compiles_nothing(key, 3, events)
