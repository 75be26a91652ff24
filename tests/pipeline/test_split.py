"""Split proving: a worker goes on while the tail of what it handed off runs."""

from __future__ import annotations

from prover.states import Entity
from tests.pipeline.controlled import Rig

SPLIT = ["pending", "reserved", "synthesizing", "ready", "claimed", "device_wait", "device", "finalizing", "done"]
W0 = "prover/0/0"


def test_every_phase_is_reported_in_order() -> None:
    with Rig(workers_per_device=1) as rig:
        rig.submit("a", 2)
        rig.await_job("a", "done")
    assert rig.states(Entity.JOB, "a") == ["queued", "loading", "running", "assembling", "verifying", "done"]
    assert rig.attempt("a:0:1") == rig.attempt("a:1:1") == SPLIT
    assert not rig.anomalies


def test_a_late_tail_never_makes_its_worker_idle() -> None:
    """The phantom idle: the tail of P0 ends while the same worker computes P1."""
    with Rig(workers_per_device=1) as rig:
        tail, device = rig.gate("finish", "a", 0), rig.gate("start", "a", 1)
        rig.submit("a", 2)
        tail.await_arrival()
        device.await_arrival()
        before = rig.state()
        assert before.front(W0) == "a:1:1" and before.finalizing(W0) == ("a:0:1",)
        tail.open()
        rig.await_attempt("a:0:1", "done")
        after = rig.state()
        assert after.activity(W0) == "proving" and after.front(W0) == "a:1:1" and after.finalizing(W0) == ()
        assert after.busy_since_us(W0) == before.busy_since_us(W0)
        device.open()
        rig.await_job("a", "done")
    assert not rig.anomalies


def test_a_worker_whose_tail_runs_reads_finalizing() -> None:
    with Rig(workers_per_device=1) as rig:
        tail = rig.gate("finish", "a")
        rig.submit("a")
        tail.await_arrival()
        rig.await_attempt("a:0:1", "finalizing")
        assert rig.activity(0) == "finalizing"
        tail.open()
        rig.await_job("a", "done")
        assert rig.activity(0) == "idle"
