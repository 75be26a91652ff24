"""The synchronous path and the monolithic loop: the same calls, a truthful card in every phase."""

from __future__ import annotations

import pytest

from prover.states import Entity
from tests.pipeline.controlled import Rig

SYNCHRONOUS = ["pending", "reserved", "synthesizing", "ready", "claimed", "device_wait", "device", "finishing", "done"]
MONOLITHIC = ["pending", "reserved", "claimed", "synthesizing", "ready", "device_wait", "device", "finishing", "done"]
W0 = "prover/0/0"


@pytest.mark.parametrize(
    ("options", "states", "workers"),
    [({"split": False}, SYNCHRONOUS, 2), ({"pipeline": False}, MONOLITHIC, 1)],
    ids=["synchronous", "monolithic"],
)
def test_every_phase_is_reported_in_order(options: dict[str, bool], states: list[str], workers: int) -> None:
    with Rig(**options) as rig:
        assert len(rig.state().views[Entity.WORKER]) == workers
        rig.submit("a", 3)
        rig.await_job("a", "done")
    for partition in range(3):
        assert rig.attempt(f"a:{partition}:1") == states
    assert not rig.anomalies


@pytest.mark.parametrize("options", [{"split": False, "workers_per_device": 1}, {"pipeline": False}], ids=str)
def test_the_worker_is_busy_until_its_tail_has_ended(options: dict[str, object]) -> None:
    with Rig(**options) as rig:
        tail, verification = rig.gate("finish", "a"), rig.gate("verify", "a")
        rig.submit("a", 2)
        for gate in (tail, verification):
            gate.await_arrival()
            state = rig.state()
            assert state.activity(W0) == "proving" and state.front(W0) == "a:0:1" and not state.finalizing(W0)
            assert rig.attempt("a:1:1")[-1] in ("pending", "reserved", "synthesizing", "ready")
            gate.open()
        rig.await_job("a", "done")
        assert rig.activity(0) == "idle"


def test_the_monolithic_worker_is_busy_while_it_synthesises() -> None:
    with Rig(pipeline=False) as rig:
        synthesis = rig.gate("synthesize", "a")
        rig.submit("a")
        synthesis.await_arrival()
        state = rig.state()
        assert state.activity(W0) == "proving" and state.front(W0) == "a:0:1"
        assert state.gauges()["synth_active"] == 1 and state.gauges()["gpu_active"] == 1
        synthesis.open()
        rig.await_job("a", "done")


def test_synthesis_runs_beside_the_device_in_the_pipeline() -> None:
    with Rig(workers_per_device=1) as rig:
        device, synthesis = rig.gate("start", "a", 0), rig.gate("synthesize", "a", 1)
        rig.submit("a", 2)
        device.await_arrival()
        synthesis.await_arrival()
        assert rig.state().gauges()["synth_active"] == 1 and rig.activity(0) == "proving"
        device.open()
        synthesis.open()
        rig.await_job("a", "done")
